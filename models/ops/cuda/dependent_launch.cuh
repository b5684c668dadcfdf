// A kernel that starts while the one before it ends (programmatic dependent launch; compute
// capability 9.0 and later, elsewhere it starts after it as ever).
#pragma once

#include <nv/target>

#include <cstddef>

#include "framework/device/cuda/check.h"

namespace packtrain::device {

// In the kernel before: the next one may start, once all blocks have said so or ended.
__device__ inline void trigger_programmatic_launch() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;");))
}

// In the next kernel: until the one before has ended and all that it wrote is seen.
__device__ inline void grid_dependency_synchronize() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" :: : "memory");))
}

}  // namespace packtrain::device

namespace packtrain {

// Launches a kernel that calls grid_dependency_synchronize() before it touches memory.
template <typename Arguments>
void launch_dependent(void (*kernel)(Arguments), dim3 blocks, dim3 threads, cudaStream_t stream,
                      const Arguments& arguments, std::size_t shared_bytes = 0) {
  int device = 0;
  int major = 0;
  PACKTRAIN_CUDA_CHECK(cudaGetDevice(&device));
  PACKTRAIN_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = major >= 9 ? 1 : 0;
  PACKTRAIN_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments));
}

}  // namespace packtrain
