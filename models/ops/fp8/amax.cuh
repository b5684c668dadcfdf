// The largest magnitude of what a kernel writes, for a cast to 8-bit floats that follows.
#pragma once

#include <cstdint>

#include "models/ops/cuda/vector.cuh"
#include "models/ops/fp8/fp8_launch.h"

namespace packtrain::device {

// Bits of float32 without a sign, in the order of the numbers; NaN is above all.
template <int N>
__device__ std::uint32_t largest_magnitude(const float (&values)[N], std::uint32_t most) {
#pragma unroll
  for (int i = 0; i < N; ++i) most = max(most, __float_as_uint(values[i]) & 0x7FFFFFFFU);
  return most;
}

// Enters the largest of a warp's numbers, rounded as T, in one of the slots [kFp8AmaxSlots]. All
// threads of the warp call it, with their numbers in the block and the warp's in the grid. Rounding
// keeps the order, so the largest one is rounded alone.
template <typename T>
__device__ void enter_amax(std::uint32_t most, std::uint32_t thread, std::uint32_t warp,
                           std::uint32_t* slots) {
  most = __reduce_max_sync(~0U, most);
  if (thread % 32 != 0) return;
  const std::uint32_t rounded = __float_as_uint(to_float(from_float<T>(__uint_as_float(most))));
  atomicMax(slots + warp % kFp8AmaxSlots, rounded);
}

}  // namespace packtrain::device
