// Rounding to bfloat16 that is right on average: up with the probability that is the share of the
// gap already covered, so that sums of small terms do not stand still.
#pragma once

#include <cstdint>

#include "models/ops/adamw/philox.h"

namespace packtrain {

// The bits of a bfloat16, from those of a float32 and 16 random ones. What is not finite stays so.
constexpr std::uint16_t round_stochastically(std::uint32_t float_bits, std::uint32_t random) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  const bool is_finite = (float_bits & kExponent) != kExponent;
  return static_cast<std::uint16_t>((float_bits + (is_finite ? random & 0xFFFF : 0)) >> 16);
}

// Random bits of elements 4 * group + {0, 1, 2, 3} in an optimizer step: one word each, its low
// half for the first moment, its high half for the second. The same for any division into ranks.
constexpr RandomWords moment_random(std::uint64_t seed, std::uint64_t step, std::int64_t group) {
  return philox(static_cast<std::uint64_t>(group), step, seed);
}

}  // namespace packtrain
