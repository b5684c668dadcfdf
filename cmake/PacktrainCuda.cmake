# Decides whether CUDA is built and switches the language on.
include(CheckLanguage)
set(PACKTRAIN_WITH_CUDA OFF)
if(NOT PACKTRAIN_CUDA STREQUAL "OFF")
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(PACKTRAIN_WITH_CUDA ON)
  elseif(PACKTRAIN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PACKTRAIN_CUDA=ON, but no nvcc was found: install the CUDA 13 toolkit and "
                        "put nvcc on PATH, or configure with -DPACKTRAIN_CUDA=OFF")
  endif()
endif()

if(PACKTRAIN_WITH_CUDA)
  # Static cudart would put a second CUDA runtime beside libtorch's into one process.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  set(CMAKE_CUDA_ARCHITECTURES ${PACKTRAIN_CUDA_ARCHITECTURES})
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 does not know C++20 for nvcc 13
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()
message(STATUS "packtrain: CUDA operators and NCCL backend: ${PACKTRAIN_WITH_CUDA}")
