// A computed permutation of numbers, for orders of more examples than a table may have.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/core/random.h"

namespace packtrain {

// A balanced Feistel network (M. Luby, C. Rackoff, "How to construct pseudorandom permutations from
// pseudorandom functions", SIAM J. Comput. 17, 1988) on the next power of four. Its round functions
// are counter-based random numbers. A result outside the range is permuted again until it is inside
// ("cycle walking": J. Black, P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
// The mean is less than four times.
class Permutation {
 public:
  // Permutes 0 .. size - 1, size at most 2^62. `name` and `index` select one of the permutations of
  // a seed.
  Permutation(std::uint64_t seed, std::string_view name, std::uint64_t index, std::uint64_t size);

  std::uint64_t operator[](std::uint64_t place) const;

 private:
  static constexpr std::uint64_t kRounds = 6;

  std::uint64_t once(std::uint64_t value) const;

  CounterRandom random_;
  std::uint64_t size_;
  unsigned half_bits_;
};

}  // namespace packtrain
