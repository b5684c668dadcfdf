// Decoding is bound by memory. A thread has 16 codes.
#include <cuda_fp8.h>

#include "framework/device/cuda/check.h"
#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/fp8_launch.h"

namespace packtrain {
namespace {

constexpr int kThreads = 256;
constexpr int kCodes = 16;  // of one load

// A code to float32, exactly.
__device__ float decode(std::uint8_t code) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

template <typename T>
__global__ void __launch_bounds__(kThreads) fp8_decode_kernel(const Fp8DecodeArguments a) {
  constexpr int kVec = 16 / sizeof(T);
  const std::int64_t at = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kCodes;
  if (at >= a.numel) return;
  const float factor = a.scale[0];
  const uint4 loaded = *reinterpret_cast<const uint4*>(a.codes + at);
  const std::uint32_t words[4] = {loaded.x, loaded.y, loaded.z, loaded.w};
  auto* values = static_cast<T*>(a.values) + at;
#pragma unroll
  for (int first = 0; first < kCodes; first += kVec) {
    float x[kVec];
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const int code = first + i;
      x[i] = decode(static_cast<std::uint8_t>(words[code / 4] >> 8 * (code % 4))) * factor;
    }
    device::store(x, values + first);
  }
}

}  // namespace

void launch_fp8_decode(const Fp8DecodeArguments& a, void* stream) {
  const std::int64_t per_block = std::int64_t{kThreads} * kCodes;
  const auto blocks = static_cast<unsigned>((a.numel + per_block - 1) / per_block);
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  if (a.dtype == DataType::kBFloat16) {
    fp8_decode_kernel<__nv_bfloat16><<<blocks, kThreads, 0, cuda_stream>>>(a);
  } else {
    fp8_decode_kernel<float><<<blocks, kThreads, 0, cuda_stream>>>(a);
  }
  PACKTRAIN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace packtrain
