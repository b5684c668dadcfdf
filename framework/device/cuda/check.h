// Checked calls of the CUDA runtime.
#pragma once

#include <cuda_runtime_api.h>

namespace packtrain {

// Throws Error(kDevice) with the call's text, its place and CUDA's description of `status`.
[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call, const char* file,
                                   int line);

}  // namespace packtrain

// An expression of type cudaError_t, evaluated once; throws Error(kDevice) unless cudaSuccess.
#define PACKTRAIN_CUDA_CHECK(call)                                                \
  do {                                                                            \
    const cudaError_t packtrain_status = (call);                                  \
    if (packtrain_status != cudaSuccess) {                                        \
      ::packtrain::throw_cuda_error(packtrain_status, #call, __FILE__, __LINE__); \
    }                                                                             \
  } while (false)
