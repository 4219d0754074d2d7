# How everything of ours is compiled: standard, optimisation, sanitizers, ccache, linker.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or Sanitize" FORCE)
endif()
set(LCAB_SANITIZE "" CACHE STRING "Sanitizers, as the compiler spells them: 'address,undefined' or 'thread'")

# No -march=native: Highway picks instructions at run time, so that one binary serves every host.
# Line tables only (-g1): enough for a backtrace, a fraction of the size.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1 -DNDEBUG" CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g" CACHE STRING "" FORCE)
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer" CACHE STRING "" FORCE)

# Worktrees of one machine share compilations: paths below the source folder are made relative
# before they are hashed, and the current folder is left out of the hash.
find_program(LCAB_CCACHE ccache)
if(LCAB_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      /usr/bin/env "CCACHE_BASEDIR=${CMAKE_CURRENT_SOURCE_DIR}" CCACHE_NOHASHDIR=1 "${LCAB_CCACHE}")
endif()

find_program(LCAB_MOLD mold)
if(LCAB_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
add_link_options(-Wl,--as-needed)

# Options of our C++ beside the build type's. They are kept in a variable because a CUDA compiler
# takes others, and because results record them (cmake/version.cmake).
set(LCAB_CXX_OPTIONS
    # a*b+c is fused where the source says so (Highway's MulAdd) and nowhere else: the fp64 reference
    # gives the same bits whatever the compiler sees.
    -ffp-contract=off)
if(LCAB_SANITIZE)
  list(APPEND LCAB_CXX_OPTIONS "-fsanitize=${LCAB_SANITIZE}" -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${LCAB_SANITIZE}")
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${LCAB_CXX_OPTIONS}>")

# __FILE__ and debug information name files from the source root, wherever that is.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_CURRENT_SOURCE_DIR}=.>")
