#include "samplers/permutation.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace packtrain {

Permutation::Permutation(std::uint64_t seed, std::string_view name, std::uint64_t index,
                         std::uint64_t size)
    : random_(seed, name, index),
      size_(size),
      half_bits_((static_cast<unsigned>(std::bit_width(std::max<std::uint64_t>(size, 2) - 1)) + 1) /
                 2) {}

std::uint64_t Permutation::once(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = (left ^ random_.bits(round << 32U | right)) & mask;
    left = std::exchange(right, mixed);
  }
  return left << half_bits_ | right;
}

std::uint64_t Permutation::operator[](std::uint64_t place) const {
  std::uint64_t value = place;
  do value = once(value);
  while (value >= size_);
  return value;
}

}  // namespace packtrain
