#include "samplers/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace packtrain::permutation_test {
namespace {

TEST(Permutation, HasEveryNumberOnceAtAnySize) {
  for (std::uint64_t size = 1; size < 700; ++size) {
    const Permutation permutation(3, "order", 0, size);
    std::vector<bool> seen(size, false);
    for (std::uint64_t place = 0; place < size; ++place) {
      const std::uint64_t value = permutation[place];
      ASSERT_LT(value, size);
      EXPECT_FALSE(seen[value]) << size;
      seen[value] = true;
    }
  }
}

TEST(Permutation, SeedsAndEpochsHaveOthers) {
  constexpr std::uint64_t kSize = 100'000;
  const Permutation first(0, "order", 0, kSize);
  for (const Permutation& other :
       {Permutation(1, "order", 0, kSize), Permutation(0, "order", 1, kSize)}) {
    std::uint64_t num_equal = 0;
    for (std::uint64_t place = 0; place < kSize; ++place) {
      num_equal += first[place] == other[place] ? 1 : 0;
    }
    EXPECT_LT(num_equal, 10U) << "one is expected";
  }
}

// Neighbours land in any two of 16 parts: chi squared of 255 degrees of freedom, whose standard
// deviation is 22.6.
TEST(Permutation, NeighboursAreIndependent) {
  constexpr std::uint64_t kSize = 1'000'003;
  constexpr std::uint64_t kParts = 16;
  const Permutation permutation(7, "order", 2, kSize);
  std::vector<double> counts(kParts * kParts, 0);
  for (std::uint64_t place = 0; place + 1 < kSize; place += 2) {
    const std::uint64_t first = permutation[place] * kParts / kSize;
    const std::uint64_t second = permutation[place + 1] * kParts / kSize;
    ++counts[first * kParts + second];
  }
  const double expected = static_cast<double>(kSize) / (2 * kParts * kParts);
  double chi_squared = 0;
  for (const double count : counts) chi_squared += std::pow(count - expected, 2) / expected;
  EXPECT_NEAR(chi_squared, 255, 100);
}

TEST(Permutation, OfABillionNumbersKeepsNone) {
  constexpr std::uint64_t kSize = 1'000'000'000;
  const Permutation permutation(1, "order", 0, kSize);
  for (std::uint64_t place = 0; place < 1000; ++place)
    EXPECT_LT(permutation[kSize - 1 - place], kSize);
  EXPECT_LE(sizeof(permutation), 64U);
}

}  // namespace
}  // namespace packtrain::permutation_test
