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

# Machine code for all GPUs from 8.0 on. The driver compiles PTX of 8.0 for those that have none here.
set(_all_architectures 80 86-real 89-real 90a-real 100-real 120-real)

# Sets OUT to the architectures of this machine's GPUs, "" without one that the kernels run on.
function(packtrain_find_architectures out)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE _capabilities RESULT_VARIABLE _status ERROR_QUIET)
  set(_found "")
  if(_status STREQUAL "0")
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" _capabilities "${_capabilities}")
    foreach(_capability IN LISTS _capabilities)
      string(REPLACE "." "" _architecture "${_capability}")
      if(_architecture EQUAL 90)
        list(APPEND _found 90a-real)  # with Hopper's own instructions
      elseif(_architecture GREATER_EQUAL 80)
        list(APPEND _found ${_architecture}-real)
      endif()
    endforeach()
    list(REMOVE_DUPLICATES _found)
  endif()
  set(${out} "${_found}" PARENT_SCOPE)
endfunction()

if(PACKTRAIN_WITH_CUDA)
  set(_architectures "${PACKTRAIN_CUDA_ARCHITECTURES}")
  if(_architectures STREQUAL "auto")
    packtrain_find_architectures(_architectures)
  endif()
  if(_architectures MATCHES "^(all)?$")
    set(_architectures ${_all_architectures})
  endif()
  # Static cudart would put a second CUDA runtime into a process that has libtorch's.
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  set(CMAKE_CUDA_ARCHITECTURES ${_architectures})
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 does not know C++20 for nvcc 13
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()
message(STATUS "packtrain: CUDA operators and NCCL backend: ${PACKTRAIN_WITH_CUDA} ${CMAKE_CUDA_ARCHITECTURES}")
