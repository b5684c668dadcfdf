#include "framework/device/cuda/architecture.h"

#include <algorithm>
#include <string>

#include "framework/core/error.h"
#include "framework/device/cuda/check.h"

namespace packtrain {
namespace {

__global__ void probe_kernel() {}

}  // namespace

// The runtime finds no code of any kernel for a GPU that the build does not support. All kernels
// but those of Hopper's own instructions are compiled for the same architectures.
void check_architecture(const char* gpu_name, int major, int minor) {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction ||
      status == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();  // clears the error, which is not sticky
    throw Error(ErrorCategory::kDevice,
                std::string(gpu_name) + " has compute capability " + std::to_string(major) + "." +
                    std::to_string(minor) +
                    ", this build has kernels for " PACKTRAIN_CUDA_ARCHITECTURES_TEXT,
                "Build with -DPACKTRAIN_CUDA_ARCHITECTURES=all (compute capability 8.0 and newer), "
                "or train with parallel.backend: mpi (on the CPU).");
  }
  PACKTRAIN_CUDA_CHECK(status);
}

int compiled_architecture() {
  static const int architecture = [] {
    cudaFuncAttributes attributes{};
    PACKTRAIN_CUDA_CHECK(cudaFuncGetAttributes(&attributes, probe_kernel));
    return attributes.ptxVersion;
  }();
  return architecture;
}

int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

int max_shared_memory_per_block() {
  constexpr int kHeldBytes = PACKTRAIN_SHARED_MEMORY_KIB * 1024;  // 0: as much as there is
  const int bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return kHeldBytes == 0 ? bytes : std::min(bytes, kHeldBytes);
}

}  // namespace packtrain
