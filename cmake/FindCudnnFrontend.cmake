# The headers of the cuDNN frontend, installed by launch/setup, and those of the cuDNN that comes with
# the torch wheel. Nothing is linked. The frontend looks its functions up in the libraries that
# libtorch has loaded. So a program starts on a machine without a graphics driver.
#   in:  CUDNN_FRONTEND_ROOT, a folder with include/cudnn_frontend.h; by default the cached one
#        LibTorch_SITE (FindLibTorch.cmake)
#   out: CudnnFrontend::headers
if(NOT CUDNN_FRONTEND_ROOT)
  # The same rule as in launch/common.sh.
  file(STRINGS "${PROJECT_SOURCE_DIR}/launch/common.sh" _version REGEX "^cudnn_frontend_version=")
  string(REPLACE "cudnn_frontend_version=" "" _version "${_version}")
  set(CUDNN_FRONTEND_ROOT "${LibTorch_CACHE}/cudnn-frontend-${_version}")
endif()

find_path(CudnnFrontend_INCLUDE cudnn_frontend.h PATHS "${CUDNN_FRONTEND_ROOT}/include"
          NO_DEFAULT_PATH NO_CACHE)
find_path(Cudnn_INCLUDE cudnn.h PATHS "${LibTorch_SITE}/nvidia/cudnn/include" NO_DEFAULT_PATH NO_CACHE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CudnnFrontend REQUIRED_VARS CudnnFrontend_INCLUDE Cudnn_INCLUDE
  REASON_FAILURE_MESSAGE "run launch/setup, or give -DCUDNN_FRONTEND_ROOT=<folder with include/>")

if(CudnnFrontend_FOUND AND NOT TARGET CudnnFrontend::headers)
  add_library(CudnnFrontend::headers INTERFACE IMPORTED)
  target_include_directories(CudnnFrontend::headers SYSTEM INTERFACE
    "${CudnnFrontend_INCLUDE}" "${Cudnn_INCLUDE}")
  target_compile_definitions(CudnnFrontend::headers INTERFACE
    NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING CUDNN_FRONTEND_SKIP_JSON_LIB)
  target_link_libraries(CudnnFrontend::headers INTERFACE CUDA::cudart ${CMAKE_DL_LIBS})
endif()
