// Two bfloat16 in a 32-bit word. A bfloat16 is the upper half of a float32. The element at the
// lower index is in the lower half of the word.
#pragma once

#include <cstdint>

namespace packtrain::device {

__device__ inline float low_bfloat16(std::uint32_t word) {
  return __uint_as_float(word << 16U);
}
__device__ inline float high_bfloat16(std::uint32_t word) {
  return __uint_as_float(word & 0xffff0000U);
}

}  // namespace packtrain::device
