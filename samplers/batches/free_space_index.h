// Index of the free space of open packs: finds the smallest that is large enough in a few
// instructions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace packtrain {

// A set of size classes, as a tree of 64-bit words. A bit of an upper level is set when the word
// below it is not zero. This is the idea of P. van Emde Boas (1975) with a fixed fan-out of 64. Up
// to 65,535 tokens each size is a class of its own. Above, a class holds 2, 4, ... neighbouring
// sizes.
class FreeSpaceIndex {
 public:
  static constexpr std::size_t kNumClasses = std::size_t{1} << 16;
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // For free spaces of 0 .. `largest` tokens.
  explicit FreeSpaceIndex(std::int64_t largest);

  std::size_t class_of(std::int64_t free_tokens) const {
    return static_cast<std::size_t>(free_tokens) >> shift_;
  }
  // The smallest class in the set whose sizes are all `tokens` or more. Returns kNone if there is
  // none.
  std::size_t find(std::int64_t tokens) const;
  void insert(std::size_t free_space_class);
  void erase(std::size_t free_space_class);

 private:
  static constexpr std::size_t kNumLevels = 3;
  static constexpr std::array<std::size_t, kNumLevels> kNumWords = {1024, 16, 1};
  static constexpr std::array<std::size_t, kNumLevels> kFirstWord = {0, 1024, 1040};

  std::uint64_t& word(std::size_t level, std::size_t index) {
    return words_[kFirstWord[level] + index];
  }
  const std::uint64_t& word(std::size_t level, std::size_t index) const {
    return words_[kFirstWord[level] + index];
  }

  int shift_ = 0;
  std::array<std::uint64_t, 1041> words_{};
};

}  // namespace packtrain
