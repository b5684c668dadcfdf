// Vec: N elements that a thread loads or stores in one access, N * sizeof(T) bytes, and converts to
// float32.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "framework/device/cuda/bfloat16.cuh"

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

// Accesses are aligned to the size of the vector, 16 bytes at most.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  T values[N];
};
// Words, so that two elements share a register. The compiler would give each bfloat16 its own, and
// store it alone.
template <int N>
struct alignas(2 * N < 16 ? 2 * N : 16) Vec<__nv_bfloat16, N> {
  static_assert(N % 2 == 0);
  std::uint32_t words[N / 2];
};
template <>
struct Vec<__nv_bfloat16, 1> {
  __nv_bfloat16 values[1];
};
template <typename T, int N>
inline constexpr bool kHasWords = std::is_same_v<T, __nv_bfloat16> && N % 2 == 0;

template <int N, typename T>
__device__ Vec<T, N> load_vec(const T* from) {
  return *reinterpret_cast<const Vec<T, N>*>(from);
}
// Stores the words of a vector in one access. The compiler divides stores of other structures, and
// in large kernels also those of a uint2.
__device__ inline void store_words(const std::uint32_t (&words)[1], void* to) {
  *static_cast<std::uint32_t*>(to) = words[0];
}
__device__ inline void store_words(const std::uint32_t (&words)[2], void* to) {
  *static_cast<std::uint64_t*>(to) = std::uint64_t{words[1]} << 32 | words[0];
}
template <int N>
__device__ void store_words(const std::uint32_t (&words)[N], void* to) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    static_cast<uint4*>(to)[i / 4] = make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
  }
}

template <typename T, int N>
__device__ void store_vec(const Vec<T, N>& run, T* to) {
  if constexpr (sizeof(run) % sizeof(std::uint32_t) == 0) {
    std::uint32_t words[sizeof(run) / sizeof(std::uint32_t)];
    memcpy(words, &run, sizeof(run));
    store_words(words, to);
  } else {
    *reinterpret_cast<Vec<T, N>*>(to) = run;
  }
}

template <typename T, int N>
__device__ void unpack(const Vec<T, N>& run, float (&to)[N]) {
  if constexpr (kHasWords<T, N>) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      to[2 * i] = low_bfloat16(run.words[i]);
      to[2 * i + 1] = high_bfloat16(run.words[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = to_float(run.values[i]);
  }
}

template <typename T, int N>
__device__ Vec<T, N> pack(const float (&from)[N]) {
  Vec<T, N> run;
  if constexpr (kHasWords<T, N>) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) run.words[i] = bfloat16_pair(from[2 * i], from[2 * i + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) run.values[i] = from_float<T>(from[i]);
  }
  return run;
}

// Makes the compiler unpack the vectors again after this point. It would otherwise keep the
// unpacked values, which take twice the registers.
template <typename T, int N, int V>
__device__ void discard_unpacked(Vec<T, N> (&runs)[V]) {
  if constexpr (kHasWords<T, N>) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) asm volatile("" : "+r"(runs[v].words[i]));
    }
  }
}

template <int N, typename T>
__device__ void load(const T* from, float (&to)[N]) {
  unpack(load_vec<N>(from), to);
}

template <int N, typename T>
__device__ void store(const float (&from)[N], T* to) {
  store_vec(pack<T>(from), to);
}

// Sum over all threads of a block of at most 1,024, returned to each thread. `scratch` holds 32
// floats. The order is fixed, so the sum is deterministic.
__device__ inline float block_sum(float value, float* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0U, value, offset);
  const int warp = threadIdx.x / 32;
  const int num_warps = (blockDim.x + 31) / 32;
  __syncthreads();  // an earlier call no longer reads the scratch
  if (threadIdx.x % 32 == 0) scratch[warp] = value;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < num_warps; ++w) sum += scratch[w];
  return sum;
}

}  // namespace packtrain::device
