// Two bfloat16 in a 32-bit word. A bfloat16 is the upper half of a float32. The element at the
// lower index is in the lower half of the word.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace packtrain::device {

__device__ inline float low_bfloat16(std::uint32_t word) {
  return __uint_as_float(word << 16U);
}
__device__ inline float high_bfloat16(std::uint32_t word) {
  return __uint_as_float(word & 0xffff0000U);
}

// Rounds two neighbouring columns to a word, the lower column in the lower half.
__device__ inline std::uint32_t bfloat16_pair(float lower, float upper) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(lower, upper);
  return reinterpret_cast<const std::uint32_t&>(both);
}

}  // namespace packtrain::device
