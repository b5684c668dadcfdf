// Programmatic dependent launch: a kernel starts while the kernel before it ends, which hides its
// launch latency. It needs compute capability 9.0. On older GPUs the kernel starts after the other
// one has ended.
#pragma once

#include <nv/target>

#include <cstddef>

#include "framework/device/cuda/architecture.h"
#include "framework/device/cuda/check.h"

namespace packtrain::device {

// In the first kernel: the dependent kernel may start when all blocks have called this or ended.
__device__ inline void trigger_programmatic_launch() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.launch_dependents;");))
}

// In the dependent kernel: waits until the first kernel has ended and its writes are visible.
__device__ inline void grid_dependency_synchronize() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" :: : "memory");))
}

}  // namespace packtrain::device

namespace packtrain {

// Launches a kernel that calls grid_dependency_synchronize() before it accesses global memory.
// Without that call it could read values that the kernel before it has not written yet. Kernels
// that were compiled for older GPUs do not have it, so the architecture of the code decides, not
// the GPU.
template <typename Arguments>
void launch_dependent(void (*kernel)(Arguments), dim3 blocks, dim3 threads, cudaStream_t stream,
                      const Arguments& arguments, std::size_t shared_bytes = 0) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = compiled_architecture() >= 90 ? 1 : 0;
  PACKTRAIN_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments));
}

}  // namespace packtrain
