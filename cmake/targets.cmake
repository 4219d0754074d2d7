# lcab_library, lcab_executable and lcab_test: the only ways in which a folder makes a target.
# cmake/README.md shows each in use.

# Flags for code that is ours; generated code is compiled without them.
function(lcab_strict target)
  set(warnings
    -Wall -Wextra -Werror -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-qual
    -Wextra-semi -Wvla -Wundef -Wredundant-decls
    # Designated initialisers that leave the defaults alone are how our option structs are written.
    -Wno-missing-field-initializers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 reports these for correct uses of std::string and std::optional once it inlines
    # (bugs 105651 and 80635); the sanitizer builds and clang-tidy look for the real ones.
    list(APPEND warnings -Wno-restrict -Wno-maybe-uninitialized)
    if(LCAB_SANITIZE)
      list(APPEND warnings -Wno-stringop-overflow -Wno-array-bounds)
    endif()
  endif()
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
  # nvcc writes C++ of its own around ours, which is not pedantic and casts as it likes.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Wall,-Wextra,-Werror,-Wno-missing-field-initializers>")
endfunction()

# Sources that need CUDA's headers or its compiler; nothing where CUDA is not built.
function(_lcab_cuda target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS")
  if(NOT LCAB_CUDA OR "${arg_SOURCES}${arg_HEADERS}" STREQUAL "")
    # Named all the same, so that the house knows every header.
    foreach(header IN LISTS arg_HEADERS)
      _lcab_name_header(${target} "${header}")
    endforeach()
    return()
  endif()
  target_sources(${target} PRIVATE ${arg_SOURCES})
  target_compile_definitions(${target} PRIVATE LCAB_HAS_CUDA=1)
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  _lcab_headers(${target} ${arg_HEADERS})
  if(TARGET ${target}_headers)
    target_include_directories(${target}_headers SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  endif()
endfunction()

# What libraries, executables and tests have in common.
function(_lcab_setup target)
  lcab_folder_of("${CMAKE_CURRENT_SOURCE_DIR}" folder)
  set_target_properties(${target} PROPERTIES LCAB_FOLDER "${folder}")
  set_property(GLOBAL APPEND PROPERTY LCAB_TARGETS ${target})
  lcab_strict(${target})
endfunction()

function(_lcab_name_header target header)
  cmake_path(ABSOLUTE_PATH header NORMALIZE OUTPUT_VARIABLE path)
  if(NOT EXISTS "${path}")
    message(FATAL_ERROR "${target}: there is no header ${path}")
  endif()
  file(RELATIVE_PATH relative "${PROJECT_SOURCE_DIR}" "${path}")
  set_property(GLOBAL APPEND PROPERTY LCAB_HEADERS "${relative}")
  set(relative "${relative}" PARENT_SCOPE)
endfunction()

# Headers are listed, so that one that is forgotten is noticed (tests/house_test.py), and each is
# compiled alone in a test build: a header that leans on its includer's includes does not pass.
function(_lcab_headers target)
  foreach(header IN LISTS ARGN)
    _lcab_name_header(${target} "${header}")
    if(NOT LCAB_TESTS OR LCAB_SANITIZE)
      continue()
    endif()
    set(language cc)
    if(relative MATCHES "\\.cuh$")
      set(language cu)
    endif()
    # Twice, so that a missing include guard shows.
    set(unit "${PROJECT_BINARY_DIR}/header_alone/${relative}.${language}")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"${relative}\"\n#include \"${relative}\"\n")
    if(NOT TARGET ${target}_headers)
      add_library(${target}_headers OBJECT)
      target_compile_options(${target}_headers PRIVATE -O0 "$<$<COMPILE_LANGUAGE:CXX>:-g0>")
      # What the target's own sources see, their headers may include.
      target_include_directories(${target}_headers PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
      target_link_libraries(${target}_headers PRIVATE $<TARGET_PROPERTY:${target},LINK_LIBRARIES>)
      lcab_strict(${target}_headers)
    endif()
    target_sources(${target}_headers PRIVATE "${unit}")
  endforeach()
endfunction()

# lcab_library(<name> [SOURCES <file>...] [HEADERS <file>...] [DEPS <target>...]
#              [PRIVATE_DEPS <target>...] [CUDA_SOURCES <file>...] [CUDA_HEADERS <file>...])
# Makes lcab_<name>. Includes are relative to the root: #include "attention/mask.h".
function(lcab_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS;CUDA_SOURCES;CUDA_HEADERS")
  _lcab_reject_unparsed("lcab_library(${name})" "${arg_UNPARSED_ARGUMENTS}")
  set(target lcab_${name})
  # With no source yet it still is an archive: registrations may add to it later.
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/${target}.cc" CONTENT "")
  add_library(${target} STATIC ${arg_SOURCES} "${PROJECT_BINARY_DIR}/generated/${target}.cc")
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  _lcab_setup(${target})
  lcab_link(${target} PUBLIC ${arg_DEPS})
  lcab_link(${target} PRIVATE ${arg_PRIVATE_DEPS})
  _lcab_headers(${target} ${arg_HEADERS})
  _lcab_cuda(${target} SOURCES ${arg_CUDA_SOURCES} HEADERS ${arg_CUDA_HEADERS})
endfunction()

# lcab_executable(<name> SOURCES <file>... [HEADERS <file>...] [DEPS <target>...])
# Makes bin/<name> (a dash in the name is kept). It is part of the target 'programs'.
function(lcab_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;DEPS")
  _lcab_reject_unparsed("lcab_executable(${name})" "${arg_UNPARSED_ARGUMENTS}")
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  _lcab_setup(${name})
  _lcab_sanitizer_options(${name})
  if(LCAB_STATIC)
    lcab_portable(${name})
  endif()
  lcab_link(${name} PRIVATE ${arg_DEPS})
  _lcab_headers(${name} ${arg_HEADERS})
  add_dependencies(programs ${name})
endfunction()

# lcab_test(<folder> SOURCES <file>... [HEADERS <file>...] [DEPS <target>...]
#           [LABELS <label>...] [TIMEOUT <seconds>] [SERIAL]
#           [CUDA_SOURCES <file>...] [CUDA_HEADERS <file>...])
# Adds to the folder's one GoogleTest binary, lcab_<folder>_test, made by the first call. Each test
# runs alone under ctest, in the source root, with LCAB_BIN_DIR naming the folder of the programs;
# its label is the folder. TIMEOUT (60 by default) is for one test and is tripled under sanitizers.
# SERIAL is for tests that time whole programs: nothing else runs beside them.
# LABELS, TIMEOUT and SERIAL are the first call's.
function(lcab_test folder)
  if(NOT LCAB_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "SERIAL" "TIMEOUT" "SOURCES;HEADERS;DEPS;LABELS;CUDA_SOURCES;CUDA_HEADERS")
  _lcab_reject_unparsed("lcab_test(${folder})" "${arg_UNPARSED_ARGUMENTS}")
  set(target lcab_${folder}_test)
  if(NOT TARGET ${target})
    add_executable(${target})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
    _lcab_setup(${target})
    _lcab_sanitizer_options(${target})
    if(LCAB_STATIC)
      lcab_portable(${target})
    endif()
    target_link_libraries(${target} PRIVATE GTest::gmock_main GTest::gmock GTest::gtest)
    set(timeout 60)
    if(arg_TIMEOUT)
      set(timeout ${arg_TIMEOUT})
    endif()
    if(LCAB_SANITIZE)
      math(EXPR timeout "3 * ${timeout}")
    endif()
    gtest_discover_tests(${target}
      DISCOVERY_MODE PRE_TEST
      NO_PRETTY_VALUES
      DISCOVERY_TIMEOUT 60
      TEST_PREFIX "${folder}."
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
      PROPERTIES TIMEOUT ${timeout} LABELS "${folder};${arg_LABELS}" RUN_SERIAL ${arg_SERIAL}
                 ENVIRONMENT "LCAB_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  elseif(arg_TIMEOUT OR arg_LABELS OR arg_SERIAL)
    message(FATAL_ERROR "lcab_test(${folder}): TIMEOUT, LABELS and SERIAL belong in the folder's first call")
  endif()
  target_sources(${target} PRIVATE ${arg_SOURCES})
  lcab_link(${target} PRIVATE ${arg_DEPS})
  _lcab_headers(${target} ${arg_HEADERS})
  _lcab_cuda(${target} SOURCES ${arg_CUDA_SOURCES} HEADERS ${arg_CUDA_HEADERS})
endfunction()

# lcab_link(<target> PUBLIC|PRIVATE <dependency>...): target_link_libraries under the house's rule.
function(lcab_link target visibility)
  lcab_check_layers(${target} ${ARGN})
  target_link_libraries(${target} ${visibility} ${ARGN})
endfunction()

function(_lcab_reject_unparsed call unparsed)
  if(NOT unparsed STREQUAL "")
    message(FATAL_ERROR "${call} does not know what to do with: ${unparsed}")
  endif()
endfunction()

# Sanitizer options are compiled in, so that a runner started by a worker started by a test has them.
function(_lcab_sanitizer_options target)
  if(LCAB_SANITIZE)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/sanitizer_options.cc")
  endif()
endfunction()

# Leaves in the build folder what tests/house_test.py reads: each target's folder, kind and links.
function(lcab_write_targets)
  get_property(targets GLOBAL PROPERTY LCAB_TARGETS)
  set(lines "")
  foreach(target IN LISTS targets)
    get_target_property(folder ${target} LCAB_FOLDER)
    get_target_property(type ${target} TYPE)
    get_target_property(links ${target} LINK_LIBRARIES)
    string(REPLACE ";" " " links "${links}")
    string(APPEND lines "target ${target} ${folder} ${type} ${links}\n")
  endforeach()
  foreach(folder IN LISTS LCAB_FOLDERS)
    string(REPLACE ";" " " used "${LCAB_MAY_USE_${folder}}")
    string(APPEND lines "may_use ${folder} ${used}\n")
  endforeach()
  get_property(headers GLOBAL PROPERTY LCAB_HEADERS)
  foreach(header IN LISTS headers)
    string(APPEND lines "header ${header}\n")
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/house.txt" CONTENT "${lines}" @ONLY)
endfunction()

add_custom_target(programs)
if(LCAB_TESTS)
  include(GoogleTest)
endif()
