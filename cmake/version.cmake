# lcab_version: what this build is. The commit is looked up at each build, in a file of its own, so
# that a new commit costs one small compilation and a link.

set(version_dir "${PROJECT_SOURCE_DIR}/cmake/version")
set(commit_source "${PROJECT_BINARY_DIR}/generated/lcab_version_commit.cc")
add_custom_target(lcab_version_commit
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE_DIR=${PROJECT_SOURCE_DIR}" "-DOUTPUT=${commit_source}"
          -P "${version_dir}/write_commit.cmake"
  BYPRODUCTS "${commit_source}"
  COMMENT "")

set(LCAB_BUILD_FLAGS "${CMAKE_CXX_FLAGS}")
if(CMAKE_BUILD_TYPE)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  string(APPEND LCAB_BUILD_FLAGS " ${CMAKE_CXX_FLAGS_${build_type}}")
endif()
list(JOIN LCAB_CXX_OPTIONS " " cxx_options)
string(STRIP "${LCAB_BUILD_FLAGS} ${cxx_options}" LCAB_BUILD_FLAGS)
if(LCAB_CUDA)
  list(JOIN LCAB_CUDA_OPTIONS " " cuda_options)
  string(APPEND LCAB_BUILD_FLAGS "; nvcc ${CMAKE_CUDA_COMPILER_VERSION}: ${CMAKE_CUDA_FLAGS_${build_type}} ${cuda_options}")
endif()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/lcab_version_build.cc" @ONLY CONTENT
"// Generated from cmake/version.cmake.
#include \"lcab_version_parts.h\"

namespace lcab::version_parts {
const char kVersion[] = \"@PROJECT_VERSION@\";
const char kCompiler[] = \"@CMAKE_CXX_COMPILER_ID@ @CMAKE_CXX_COMPILER_VERSION@\";
const char kFlags[] = \"@LCAB_BUILD_FLAGS@\";
const char kBuildType[] = \"@CMAKE_BUILD_TYPE@\";
const char kSanitizers[] = \"@LCAB_SANITIZE@\";
}  // namespace lcab::version_parts
")

add_library(lcab_version STATIC
  "${version_dir}/lcab_version.cc" "${PROJECT_BINARY_DIR}/generated/lcab_version_build.cc" "${commit_source}")
add_dependencies(lcab_version lcab_version_commit)
target_include_directories(lcab_version PUBLIC "${version_dir}" PRIVATE "${PROJECT_SOURCE_DIR}")
set_target_properties(lcab_version PROPERTIES LCAB_FOLDER cmake)
lcab_strict(lcab_version)
_lcab_headers(lcab_version "${version_dir}/lcab_version.h" "${version_dir}/lcab_version_parts.h")
