# The rule of the house: which folder may link (and include) which.
#
# LCAB_FOLDERS runs from the ground up. LCAB_MAY_USE_<folder> names every folder that it may use;
# lcab_library and its kin refuse anything else at configure time, and tests/house_test.py holds
# this table, the links that result and the includes against docs/architecture.md.

set(LCAB_FOLDERS
    proto service attention device kernels cp measurement suites report worker coordinator client)

set(LCAB_MAY_USE_proto "")
set(LCAB_MAY_USE_service proto)
set(LCAB_MAY_USE_attention proto)
set(LCAB_MAY_USE_device proto attention)
set(LCAB_MAY_USE_kernels proto attention device)
set(LCAB_MAY_USE_cp proto attention device kernels)
set(LCAB_MAY_USE_measurement proto attention device kernels cp)
set(LCAB_MAY_USE_suites proto attention device kernels cp measurement)
set(LCAB_MAY_USE_report proto attention device kernels cp measurement suites)
set(LCAB_MAY_USE_worker proto service attention device kernels cp measurement suites)
set(LCAB_MAY_USE_coordinator proto service attention device kernels cp measurement suites report)
set(LCAB_MAY_USE_client
    proto service attention device kernels cp measurement suites report worker coordinator)
set(LCAB_MAY_USE_tests ${LCAB_FOLDERS})

# lcab_folder_of(<directory> <out>): the room that a directory of the source tree belongs to.
function(lcab_folder_of directory out)
  file(RELATIVE_PATH relative "${PROJECT_SOURCE_DIR}" "${directory}")
  string(REGEX REPLACE "/.*" "" folder "${relative}")
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

# lcab_check_layers(<target> <dependency>...): stops unless each dependency is a target (CMake would
# take a misspelt one for a library of the system) and the target's folder may use the dependency's.
function(lcab_check_layers target)
  get_target_property(folder ${target} LCAB_FOLDER)
  foreach(dependency IN LISTS ARGN)
    if(NOT TARGET ${dependency})
      message(FATAL_ERROR
        "${target} (in ${folder}/) depends on ${dependency}, which is not a target. Folders are read "
        "in the order ${LCAB_FOLDERS}; libraries of others are found in cmake/third_party.cmake.")
    endif()
    if(NOT dependency MATCHES "^lcab_")
      continue()
    endif()
    get_target_property(used ${dependency} LCAB_FOLDER)
    if(used STREQUAL "cmake" OR used STREQUAL folder)
      continue()
    endif()
    if(NOT used IN_LIST LCAB_MAY_USE_${folder})
      message(FATAL_ERROR "${target} (in ${folder}/) may not use ${dependency} (in ${used}/). "
                          "${folder}/ may use: ${LCAB_MAY_USE_${folder}}. See docs/architecture.md.")
    endif()
  endforeach()
endfunction()
