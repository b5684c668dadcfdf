// Philox 4x32 with 7 rounds: 128 random bits from a counter and a key. CPU and GPU give the same
// bits (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011). 7
// rounds pass all of BigCrush. The functions are constexpr, so that device code may call them.
#pragma once

#include <cstdint>

namespace packtrain {

struct RandomWords {
  std::uint32_t values[4];
};

constexpr RandomWords philox(std::uint64_t counter_low, std::uint64_t counter_high,
                             std::uint64_t key) {
  constexpr int kRounds = 7;
  auto c0 = static_cast<std::uint32_t>(counter_low);
  auto c1 = static_cast<std::uint32_t>(counter_low >> 32);
  auto c2 = static_cast<std::uint32_t>(counter_high);
  auto c3 = static_cast<std::uint32_t>(counter_high >> 32);
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t left = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t right = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(right >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(right);
    c2 = static_cast<std::uint32_t>(left >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(left);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace packtrain
