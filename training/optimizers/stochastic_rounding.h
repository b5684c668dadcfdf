// Stochastic rounding to bfloat16: rounds up with a probability equal to the discarded fraction.
// The expected value is exact, so that small terms of a sum are not lost.
#pragma once

#include <cstdint>

#include "framework/core/philox.h"

namespace packtrain {

// Rounds float32 bits to bfloat16 bits with 16 random bits. Values that are not finite stay so.
constexpr std::uint16_t round_stochastically(std::uint32_t float_bits, std::uint32_t random) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  const bool is_finite = (float_bits & kExponent) != kExponent;
  return static_cast<std::uint16_t>((float_bits + (is_finite ? random & 0xFFFF : 0)) >> 16);
}

// Random bits of elements 4 * group + {0, 1, 2, 3} in an optimizer step. Each element has one word:
// the low half for the first moment, the high half for the second. They do not depend on the number
// of ranks.
constexpr RandomWords moment_random(std::uint64_t seed, std::uint64_t step, std::int64_t group) {
  return philox(static_cast<std::uint64_t>(group), step, seed);
}

// Random bits of bfloat16 weights that are their own masters: of elements 8 * group + {0 .. 7}.
// Each has half a word. The counters are no counters of moment_random(), so both are independent.
constexpr RandomWords master_random(std::uint64_t seed, std::uint64_t step, std::int64_t group) {
  constexpr std::uint64_t kMasters = std::uint64_t{1} << 63;
  return philox(static_cast<std::uint64_t>(group) | kMasters, step, seed);
}

// The 16 bits, and others above them, of an element of the group: `place` is 0 .. 7.
constexpr std::uint32_t master_bits(const RandomWords& random, std::int64_t place) {
  return random.values[place / 2] >> (16 * (place % 2));
}

}  // namespace packtrain
