# lcab_kernel and lcab_strategy: one line of CMake makes a kernel or strategy part of the program.
#
# A static object that registers itself is dropped by the linker when nothing else in its archive
# member is used, so registration is an explicit call, generated here: kernels/register_all.h and
# cp/register_all.h declare it.

# lcab_kernel(<name> [SOURCES <file>...] [HEADERS <file>...] [DEPS <target>...] [TESTS <file>...]
#             [CUDA_SOURCES <file>...] [CUDA_HEADERS <file>...] [CUDA_TESTS <file>...])
# One of the sources defines, in namespace lcab, void Register_<name>(KernelRegistry&). A kernel that
# has CUDA_SOURCES is registered, by one of these, only where CUDA is built; its SOURCES and TESTS are
# compiled everywhere.
macro(lcab_kernel)
  _lcab_registered(kernels ${ARGN})
endmacro()

# lcab_strategy(<name> SOURCES <file>... [HEADERS <file>...] [DEPS <target>...] [TESTS <file>...])
# One of the sources defines, in namespace lcab::cp, void Register_<name>(StrategyRegistry&).
macro(lcab_strategy)
  _lcab_registered(cp ${ARGN})
endmacro()

# The sources join the folder's library and the tests its test binary.
function(_lcab_registered library name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" ""
                        "SOURCES;HEADERS;DEPS;TESTS;CUDA_SOURCES;CUDA_HEADERS;CUDA_TESTS")
  _lcab_reject_unparsed("registration of ${name}" "${arg_UNPARSED_ARGUMENTS}")
  if(NOT name MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "'${name}' is not a name for suites and C++: lower case, digits, underscores")
  endif()
  if(NOT TARGET lcab_${library})
    message(FATAL_ERROR "${name}: call lcab_library(${library} ...) first")
  endif()
  get_property(names GLOBAL PROPERTY LCAB_REGISTERED_${library})
  if(name IN_LIST names)
    message(FATAL_ERROR "${name} is registered twice in ${library}/")
  endif()
  if(LCAB_CUDA OR NOT arg_CUDA_SOURCES)
    set_property(GLOBAL APPEND PROPERTY LCAB_REGISTERED_${library} ${name})
  endif()
  target_sources(lcab_${library} PRIVATE ${arg_SOURCES})
  lcab_link(lcab_${library} PRIVATE ${arg_DEPS})
  _lcab_headers(lcab_${library} ${arg_HEADERS})
  _lcab_cuda(lcab_${library} SOURCES ${arg_CUDA_SOURCES} HEADERS ${arg_CUDA_HEADERS})
  if(arg_TESTS OR arg_CUDA_TESTS)
    lcab_test(${library} SOURCES ${arg_TESTS} CUDA_SOURCES ${arg_CUDA_TESTS}
              DEPS lcab_${library} ${arg_DEPS})
  endif()
endfunction()

# Writes <folder>/register_all.h and .cc; called once every folder has been read.
function(lcab_write_registrations)
  _lcab_write_registration(kernels lcab KernelRegistry RegisterBuiltinKernels)
  _lcab_write_registration(cp lcab::cp StrategyRegistry RegisterBuiltinStrategies)
endfunction()

function(_lcab_write_registration library namespace registry function)
  get_property(names GLOBAL PROPERTY LCAB_REGISTERED_${library})
  set(declarations "")
  set(calls "")
  foreach(name IN LISTS names)
    string(APPEND declarations "void Register_${name}(${registry}& registry);\n")
    string(APPEND calls "  Register_${name}(registry);\n")
  endforeach()
  set(stem "${PROJECT_BINARY_DIR}/generated/${library}/register_all")
  string(TOUPPER "LCAB_${library}_REGISTER_ALL_H_" guard)
  file(CONFIGURE OUTPUT "${stem}.h" @ONLY CONTENT
"// Generated from cmake/registration.cmake.
#ifndef ${guard}
#define ${guard}

namespace ${namespace} {

class ${registry};

// Adds everything that is linked in, in the order of the CMake files.
void ${function}(${registry}& registry);

}  // namespace ${namespace}

#endif  // ${guard}
")
  file(CONFIGURE OUTPUT "${stem}.cc" @ONLY CONTENT
"// Generated from cmake/registration.cmake.
#include \"${library}/register_all.h\"

namespace ${namespace} {

${declarations}
void ${function}([[maybe_unused]] ${registry}& registry) {
${calls}}

}  // namespace ${namespace}
")
  target_sources(lcab_${library} PRIVATE "${stem}.cc")
endfunction()
