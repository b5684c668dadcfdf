#include "framework/device/cuda/spin_kernel.h"

#include "framework/device/cuda/check.h"

namespace packtrain {
namespace {

__global__ void spin_kernel() {
  for (;;) __nanosleep(1000);
}

}  // namespace

void launch_spin_kernel(void* stream) {
  spin_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
