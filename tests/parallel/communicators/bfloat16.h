// bfloat16 <-> float32 by way of double, unlike the code under test.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace packtrain {

inline float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

// Nearest of the two neighbours, ties to the even one.
inline std::uint16_t to_bfloat16(float value) {
  const auto low = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
  if (std::isnan(value)) return 0x7fc0;
  if (std::isinf(value)) return low;
  const auto high = static_cast<std::uint16_t>(low + 1);  // away from zero
  const double to_low = std::abs(static_cast<double>(value) - from_bfloat16(low));
  // Past the largest finite number, the step stays what it was: 2^120.
  const double to_high = std::isinf(from_bfloat16(high))
                             ? 0x1p120 - to_low
                             : std::abs(static_cast<double>(from_bfloat16(high)) - value);
  if (to_low != to_high) return to_low < to_high ? low : high;
  return (low & 1U) == 0 ? low : high;
}

}  // namespace packtrain
