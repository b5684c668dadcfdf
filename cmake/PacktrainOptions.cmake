# Options, language standard and warnings of the whole project.
set(PACKTRAIN_CUDA AUTO CACHE STRING "Build CUDA operators and the NCCL backend: AUTO, ON or OFF")
set_property(CACHE PACKTRAIN_CUDA PROPERTY STRINGS AUTO ON OFF)
set(PACKTRAIN_CUDA_ARCHITECTURES auto CACHE STRING
    "CUDA architectures to compile for: auto (this machine's GPUs, else all), all, or a list such as 80;90a-real")
set(PACKTRAIN_SHARED_MEMORY_KIB 0 CACHE STRING
    "For tests: the shared memory that kernels use of a block's, as on a smaller GPU; 0: all of it")
set(PACKTRAIN_SANITIZE "" CACHE STRING "Sanitizers for our code: address, undefined or thread, comma-separated")
set(PACKTRAIN_SANITIZE_FLAGS "" CACHE STRING "Further flags for sanitizers")
option(PACKTRAIN_TESTS "Build the tests" ON)
option(PACKTRAIN_PRECOMPILED_HEADER "Precompile libtorch's narrow headers" ON)
option(PACKTRAIN_UNITY "Compile several files of a target as one, for a shorter whole build" ON)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Clones at different paths share hits: paths below the clone are rewritten to relative ones, and
  # precompiled headers are compared by content.
  set(PACKTRAIN_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${PACKTRAIN_LAUNCHER})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PACKTRAIN_LAUNCHER})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${PACKTRAIN_LAUNCHER})
endif()
