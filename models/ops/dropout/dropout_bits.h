// The random bits of dropout, on host and device.
#pragma once

#include <cstdint>

namespace packtrain {

inline constexpr int kDropoutGroup = 4;  // elements that share 64 bits, 16 for each

// Elements below the threshold are dropped.
constexpr std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 65536.0 + 0.5);
}

// Bits of the elements 4 g .. 4 g + 3 of a row: two rounds of SplitMix64's mixing function (Steele,
// Lea, Flood, 2014).
constexpr std::uint64_t dropout_bits(std::uint64_t key, std::uint32_t row_seed,
                                     std::uint32_t group) {
  std::uint64_t z = key ^ ((std::uint64_t{row_seed} << 32U) | group);
  for (int round = 0; round < 2; ++round) {
    z += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    z ^= z >> 31U;
  }
  return z;
}

constexpr bool dropout_keeps(std::uint64_t bits, int element, std::uint32_t threshold) {
  return ((bits >> (16 * element)) & 0xffffU) >= threshold;
}

}  // namespace packtrain
