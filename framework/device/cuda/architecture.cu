#include "framework/device/cuda/architecture.h"

#include <string>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"

namespace packtrain {
namespace {

__global__ void probe_kernel() {}

}  // namespace

// The runtime finds no code of any kernel for a GPU that the build does not support. All kernels
// are compiled for the same architectures.
void check_architecture(const char* gpu_name, int major, int minor) {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();  // clears the error, which is not sticky
    const std::string capability = std::to_string(major) + std::to_string(minor);
    throw Error(ErrorCategory::kDevice,
                std::string(gpu_name) + " has compute capability " + capability +
                    ", this build has kernels for " PACKTRAIN_CUDA_ARCHITECTURES_TEXT,
                "Build with -DPACKTRAIN_CUDA_ARCHITECTURES=" + capability +
                    " (80, 89, 90a and 100 are supported), or train with parallel.backend: mpi (on "
                    "the CPU).");
  }
  PACKTRAIN_CUDA_CHECK(status);
}

}  // namespace packtrain
