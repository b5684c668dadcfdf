// How many examples of each store an epoch has, by shares.
#include "framework/data/mixture.h"

#include <gtest/gtest.h>

#include <numeric>

namespace packtrain {
namespace {

using Counts = std::vector<std::int64_t>;

// Shares of examples.
Counts by_examples(const std::vector<double>& wanted, const Counts& sizes, bool until_all) {
  std::vector<MixturePart> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    parts.push_back({wanted[i], sizes[i], static_cast<double>(sizes[i])});
  }
  return mixture_counts(parts, until_all);
}

TEST(Mixture, EndsWhereTheFirstStoreIsUsedUp) {
  EXPECT_EQ(by_examples({0.5, 0.5}, {100, 300}, false), (Counts{100, 100}));
  EXPECT_EQ(by_examples({0.1, 0.9}, {100, 300}, false), (Counts{33, 300}));
  EXPECT_EQ(by_examples({0.25, 0.75}, {100, 300}, false), (Counts{100, 300}));
}

TEST(Mixture, EndsWhereEachStoreHasBeenUsedUp) {
  EXPECT_EQ(by_examples({0.5, 0.5}, {100, 300}, true), (Counts{300, 300}));
  EXPECT_EQ(by_examples({0.1, 0.9}, {100, 300}, true), (Counts{100, 900}));
}

TEST(Mixture, OfTokensCountsByTheMeanLength) {
  // 10 tokens an example, and 40: equal shares are four times as many of the short ones.
  const std::vector<MixturePart> parts{{0.5, 1000, 10'000}, {0.5, 1000, 40'000}};
  EXPECT_EQ(mixture_counts(parts, false), (Counts{1000, 250}));
  EXPECT_EQ(mixture_counts(parts, true), (Counts{4000, 1000}));
}

TEST(Mixture, ReachesItsSharesAndUsesTheDecidingStoreExactly) {
  for (std::int64_t a = 1; a < 2000; a += 37) {
    for (const double p : {0.01, 0.3, 1.0 / 3, 0.77}) {
      const Counts sizes{a, 1234, 777};
      const std::vector<double> wanted{p, (1 - p) * 0.4, (1 - p) * 0.6};
      for (const bool until_all : {false, true}) {
        const Counts counts = by_examples(wanted, sizes, until_all);
        const auto sum = static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0L));
        bool one_is_exact = false;
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          EXPECT_NEAR(static_cast<double>(counts[i]), wanted[i] * sum, 2.0);
          one_is_exact = one_is_exact || counts[i] == sizes[i];
          EXPECT_GE(counts[i], until_all ? sizes[i] : 0);
          EXPECT_LE(counts[i], until_all ? counts[i] : sizes[i]);
        }
        EXPECT_TRUE(one_is_exact) << a << ", " << p << ", " << until_all;
      }
    }
  }
}

}  // namespace
}  // namespace packtrain
