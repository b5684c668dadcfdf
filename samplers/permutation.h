// A permutation of numbers that is computed, not kept: for orders of more examples than a table may
// have.
#pragma once

#include <cstdint>
#include <string_view>

#include "framework/support/random.h"

namespace packtrain {

// A balanced Feistel network (M. Luby, C. Rackoff, "How to construct pseudorandom permutations from
// pseudorandom functions", SIAM J. Comput. 17, 1988) whose round functions are counter-based random
// numbers, on the next power of four; what falls outside is permuted again until it is inside
// ("cycle walking": J. Black, P. Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002),
// less than four times in the mean.
class Permutation {
 public:
  // Of 0 .. size - 1, size at most 2^62. `name` and `index` tell permutations of one seed apart.
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
