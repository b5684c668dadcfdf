// Reading and writing runs of N elements as float32, N * sizeof(T) bytes at once.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace packtrain::device {

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

template <typename T, int N>
struct alignas(sizeof(T) * N) Run {
  T values[N];
};

template <int N, typename T>
__device__ void load(const T* from, float (&to)[N]) {
  const auto run = *reinterpret_cast<const Run<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = to_float(run.values[i]);
}

template <int N, typename T>
__device__ void store(const float (&from)[N], T* to) {
  Run<T, N> run;
#pragma unroll
  for (int i = 0; i < N; ++i) run.values[i] = from_float<T>(from[i]);
  *reinterpret_cast<Run<T, N>*>(to) = run;
}

// The sum over all threads of a block of at most 1024, on every thread; `scratch` has 32 places.
__device__ inline float block_sum(float value, float* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0U, value, offset);
  const int warp = threadIdx.x / 32;
  const int num_warps = (blockDim.x + 31) / 32;
  __syncthreads();  // an earlier use of the scratch is over
  if (threadIdx.x % 32 == 0) scratch[warp] = value;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < num_warps; ++w) sum += scratch[w];
  return sum;
}

}  // namespace packtrain::device
