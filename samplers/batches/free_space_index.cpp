#include "samplers/batches/free_space_index.h"

#include <bit>

namespace packtrain {
namespace {

constexpr std::uint64_t bit(std::size_t index) {
  return std::uint64_t{1} << (index % 64);
}

}  // namespace

FreeSpaceIndex::FreeSpaceIndex(std::int64_t largest) {
  while (class_of(largest) >= kNumClasses) ++shift_;
}

std::size_t FreeSpaceIndex::find(std::int64_t tokens) const {
  // Rounded up, where class_of rounds down: the class of `tokens` may hold smaller free spaces.
  std::size_t index = class_of(tokens + (std::int64_t{1} << shift_) - 1);
  for (std::size_t level = 0; level < kNumLevels && index / 64 < kNumWords[level]; ++level) {
    std::uint64_t bits = word(level, index / 64) >> (index % 64);
    if (bits == 0) {
      index = index / 64 + 1;  // continue with the next words, by the level above
      continue;
    }
    index += static_cast<std::size_t>(std::countr_zero(bits));
    for (; level > 0; --level) {
      bits = word(level - 1, index);
      index = index * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    }
    return index;
  }
  return kNone;
}

void FreeSpaceIndex::insert(std::size_t free_space_class) {
  for (std::size_t level = 0; level < kNumLevels; ++level, free_space_class /= 64) {
    word(level, free_space_class / 64) |= bit(free_space_class);
  }
}

void FreeSpaceIndex::erase(std::size_t free_space_class) {
  for (std::size_t level = 0; level < kNumLevels; ++level, free_space_class /= 64) {
    std::uint64_t& bits = word(level, free_space_class / 64);
    bits &= ~bit(free_space_class);
    if (bits != 0) return;
  }
}

}  // namespace packtrain
