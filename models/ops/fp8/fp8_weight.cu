#include "framework/device/cuda/check.h"
#include "models/ops/fp8/fp8_arithmetic.h"
#include "models/ops/fp8/fp8_weight_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) scales_kernel(const std::uint32_t* amax, float* scales,
                                                          std::int64_t count, std::int64_t stride) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= count) return;
  float* const scale = scales + i * stride;
  scale[0] = __uint_as_float(fp8::scale_of(amax[i], Fp8Format::kE4M3).factor);
  scale[1] = __uint_as_float(amax[i]);
}

unsigned num_blocks(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

void launch_fp8_weight_scales(const std::uint32_t* amax, float* scales, std::int64_t count,
                              std::int64_t stride, void* stream) {
  scales_kernel<<<num_blocks(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      amax, scales, count, stride);
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
