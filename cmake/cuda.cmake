# CUDA: whether it is compiled, for which architectures and how.
#
# Only the compiler and the runtime's static library are needed to build; the driver and all other
# libraries of NVIDIA are opened when the program runs, so one binary also starts where there are none.

find_program(LCAB_NVCC nvcc PATHS "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin)
set(lcab_cuda_default OFF)
if(LCAB_NVCC AND NOT LCAB_SANITIZE)
  set(lcab_cuda_default ON)
endif()
option(LCAB_CUDA "Build what runs on NVIDIA GPUs" ${lcab_cuda_default})
set(LCAB_CUDA_ARCHITECTURES "80;90a" CACHE STRING "Compute capabilities to compile for, as nvcc spells them")

if(NOT LCAB_CUDA)
  message(STATUS "CUDA: not built (LCAB_CUDA is off; nvcc: ${LCAB_NVCC})")
  return()
endif()
if(NOT LCAB_NVCC)
  message(FATAL_ERROR "LCAB_CUDA is on and there is no nvcc on PATH, in $CUDA_HOME or in /usr/local/cuda; "
                      "install the CUDA toolkit or configure with -DLCAB_CUDA=OFF")
endif()

set(CMAKE_CUDA_COMPILER "${LCAB_NVCC}")
set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
# Architectures are options of ours: CMake 3.25 cannot spell several of which one ends in a letter.
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
# CMake 3.25 knows no C++20 of nvcc's, whatever its version.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG" CACHE STRING "" FORCE)
set(CMAKE_CUDA_FLAGS_DEBUG "-O0 -g" CACHE STRING "" FORCE)
set(CMAKE_CUDA_COMPILER_LAUNCHER "${CMAKE_CXX_COMPILER_LAUNCHER}")

# What results record beside the options of C++ (cmake/version.cmake).
set(LCAB_CUDA_OPTIONS --expt-relaxed-constexpr)
foreach(architecture IN LISTS LCAB_CUDA_ARCHITECTURES)
  list(APPEND LCAB_CUDA_OPTIONS "-gencode=arch=compute_${architecture},code=sm_${architecture}")
endforeach()
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:${LCAB_CUDA_OPTIONS}>")
# Host code in a .cu rounds as all other host code does.
foreach(option IN LISTS LCAB_CXX_OPTIONS)
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${option}>")
endforeach()

list(JOIN LCAB_CUDA_ARCHITECTURES " " architectures)
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION} for ${architectures}")
