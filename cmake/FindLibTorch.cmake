# libtorch out of the PyPI wheel. The wheel's own CMake files require a CUDA toolkit where the wheel
# was built with CUDA, so they are not used.
#   in:  TORCH_ROOT, the `torch` folder of a Python environment; by default that of the cached
#        environment made by launch/setup, and in the build of a wheel that of the Python that builds it
#   out: LibTorch::cpu; with CUDA also LibTorch::cuda, LibTorch::nccl, LibTorch::cupti; LibTorch_SITE,
#        LibTorch_RPATH, LibTorch_PYTHON (the environment's interpreter), LibTorch_CACHE (where
#        launch/setup keeps things)
# The same rule as in launch/common.sh.
if(NOT "$ENV{PACKTRAIN_CACHE}" STREQUAL "")
  set(LibTorch_CACHE "$ENV{PACKTRAIN_CACHE}")
elseif(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(LibTorch_CACHE "$ENV{XDG_CACHE_HOME}/packtrain")
else()
  set(LibTorch_CACHE "$ENV{HOME}/.cache/packtrain")
endif()
if(NOT TORCH_ROOT AND SKBUILD)
  execute_process(COMMAND "${Python_EXECUTABLE}" -c
    "import importlib.util as u, os; print(os.path.realpath(u.find_spec('torch').submodule_search_locations[0]))"
    OUTPUT_VARIABLE TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(STRINGS "${PROJECT_SOURCE_DIR}/pyproject.toml" _wanted REGEX "^  \"torch==")
  string(REGEX MATCH "[0-9][0-9.]*[0-9]" _wanted "${_wanted}")
  set(_found "")
  if(TORCH_ROOT)
    file(STRINGS "${TORCH_ROOT}/version.py" _found REGEX "^__version__ = ")
    string(REGEX MATCH "[0-9][0-9.]*[0-9]" _found "${_found}")
  endif()
  if(TORCH_ROOT AND NOT _found STREQUAL _wanted)
    message(FATAL_ERROR "${TORCH_ROOT} is torch ${_found}, but the wheel is pinned to ${_wanted}: install that one, or "
                        "let pip make an environment for the build (without --no-build-isolation)")
  endif()
endif()
if(NOT TORCH_ROOT)
  # Not cached: other requirements mean another environment.
  set(_requirements "${PROJECT_SOURCE_DIR}/launch/requirements.txt")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_requirements}")
  file(SHA256 "${_requirements}" _hash)
  string(SUBSTRING "${_hash}" 0 12 _hash)
  if(EXISTS "${LibTorch_CACHE}/env-${_hash}/.complete")  # launch/setup writes it last
    file(GLOB TORCH_ROOT "${LibTorch_CACHE}/env-${_hash}/lib/python3*/site-packages/torch")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS TORCH_ROOT
  REASON_FAILURE_MESSAGE "run launch/setup, or give -DTORCH_ROOT=<site-packages>/torch")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  get_filename_component(LibTorch_SITE "${TORCH_ROOT}" DIRECTORY)
  get_filename_component(LibTorch_PYTHON "${LibTorch_SITE}/../../../bin/python" ABSOLUTE)
  set(LibTorch_RPATH "${TORCH_ROOT}/lib;${LibTorch_SITE}/nvidia/nccl/lib;${LibTorch_SITE}/nvidia/cu13/lib")

  # The wheel carries headers of another fmt, whose code is nowhere to link with; they would shadow
  # the system's fmt, which spdlog is built with.
  get_target_property(_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  list(GET _fmt_include 0 _fmt_include)
  set(_fmt_first "${PROJECT_BINARY_DIR}/system-fmt")
  file(MAKE_DIRECTORY "${_fmt_first}")
  file(CREATE_LINK "${_fmt_include}/fmt" "${_fmt_first}/fmt" SYMBOLIC)

  add_library(LibTorch::cpu INTERFACE IMPORTED)
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE "${_fmt_first}"
    "${TORCH_ROOT}/include" "${TORCH_ROOT}/include/torch/csrc/api/include")
  target_compile_definitions(LibTorch::cpu INTERFACE AT_PER_OPERATOR_HEADERS)
  # at::parallel_for is a loop of one thread in files compiled without OpenMP. The run time is the
  # wheel's own, so that one process never holds two.
  target_compile_options(LibTorch::cpu INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
  target_link_libraries(LibTorch::cpu INTERFACE "${TORCH_ROOT}/lib/libgomp.so.1")
  # The wheel's libraries find each other at run time; the linker need not see them all.
  target_link_libraries(LibTorch::cpu INTERFACE
    "${TORCH_ROOT}/lib/libtorch_cpu.so" "${TORCH_ROOT}/lib/libc10.so" -Wl,--allow-shlib-undefined)

  if(PACKTRAIN_WITH_CUDA)
    set(_cublaslt "${LibTorch_SITE}/nvidia/cu13/lib/libcublasLt.so.13")
    set(_cupti "${LibTorch_SITE}/nvidia/cu13/lib/libcupti.so.13")  # which libtorch_cpu needs too
    foreach(_library "${TORCH_ROOT}/lib/libtorch_cuda.so" "${LibTorch_SITE}/nvidia/nccl/lib/libnccl.so.2"
                     "${_cublaslt}" "${_cupti}")
      if(NOT EXISTS "${_library}")
        message(FATAL_ERROR "PACKTRAIN_CUDA needs ${_library}: install the CUDA build of torch "
                            "(launch/setup), or configure with -DPACKTRAIN_CUDA=OFF")
      endif()
    endforeach()
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    # Nothing calls libtorch_cuda by symbol, so the linker would drop it and with it all CUDA kernels.
    target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu -Wl,--no-as-needed
      "${TORCH_ROOT}/lib/libtorch_cuda.so" "${TORCH_ROOT}/lib/libc10_cuda.so" -Wl,--as-needed
      "-Wl,${_cublaslt}" CUDA::cudart)  # as a flag: by its folder CMake would reorder run paths
    if(NOT EXISTS "${CUDAToolkit_INCLUDE_DIRS}/cublasLt.h")  # a toolkit of nvcc alone
      target_include_directories(LibTorch::cuda SYSTEM INTERFACE "${LibTorch_SITE}/nvidia/cu13/include")
    endif()
    add_library(LibTorch::cupti INTERFACE IMPORTED)
    target_link_libraries(LibTorch::cupti INTERFACE "-Wl,${_cupti}" CUDA::cudart)
    if(NOT EXISTS "${CUDAToolkit_INCLUDE_DIRS}/cupti.h")
      target_include_directories(LibTorch::cupti SYSTEM INTERFACE "${LibTorch_SITE}/nvidia/cu13/include")
    endif()
    add_library(LibTorch::nccl INTERFACE IMPORTED)
    target_include_directories(LibTorch::nccl SYSTEM INTERFACE "${LibTorch_SITE}/nvidia/nccl/include")
    target_link_libraries(LibTorch::nccl INTERFACE "${LibTorch_SITE}/nvidia/nccl/lib/libnccl.so.2" CUDA::cudart)
  endif()
endif()
