// Tests the number of examples of each store in an epoch, by shares.
#include "framework/data/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/core/random.h"

namespace packtrain::mixture_test {
namespace {

using Counts = std::vector<std::int64_t>;

MixturePart part_of(double wanted, std::int64_t num_examples, std::int32_t amount = 1) {
  return {wanted, std::vector<std::int32_t>(static_cast<std::size_t>(num_examples), amount)};
}

// Shares of examples.
Counts by_examples(const std::vector<double>& wanted, const Counts& sizes, bool until_all) {
  std::vector<MixturePart> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) parts.push_back(part_of(wanted[i], sizes[i]));
  return mixture_counts(parts, until_all);
}

TEST(ChooseExamples, TakesAsManyAsAskedForAlwaysTheSame) {
  for (const std::int64_t count : {0, 1, 17, 500, 999, 1000}) {
    const auto chosen = choose_examples(1000, count);
    EXPECT_EQ(std::ssize(chosen), count);
    EXPECT_TRUE(std::ranges::is_sorted(chosen));
    EXPECT_EQ(std::ranges::adjacent_find(chosen), chosen.end());
    EXPECT_EQ(choose_examples(1000, count), chosen);
  }
  EXPECT_EQ(choose_examples(20, 5), (std::vector<std::uint32_t>{1, 3, 9, 11, 12}))
      << "runs of earlier versions trained these";
}

TEST(ChooseExamples, MoreContainFewerAndComeFromEverywhere) {
  const auto few = choose_examples(1000, 200);
  const auto more = choose_examples(1000, 300);
  EXPECT_TRUE(std::ranges::includes(more, few));
  for (std::uint32_t tenth = 0; tenth < 10; ++tenth) {
    const auto inside =
        std::ranges::count_if(few, [=](std::uint32_t example) { return example / 100 == tenth; });
    EXPECT_GT(inside, 5) << tenth;
    EXPECT_LT(inside, 40) << tenth;
  }
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
  const std::vector<MixturePart> parts{part_of(0.5, 1000, 10), part_of(0.5, 1000, 40)};
  EXPECT_EQ(mixture_counts(parts, false), (Counts{1000, 250}));
  EXPECT_EQ(mixture_counts(parts, true), (Counts{4000, 1000}));
}

TEST(Mixture, OfTokensComesAsCloseAsOneExample) {
  const CounterRandom random(3, "test");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<MixturePart> parts{{0.35, {}}, {0.65, {}}};
    for (std::uint64_t e = 0; e < 900; ++e) {
      const auto length = static_cast<std::int32_t>(1 + random.below(1000 * seed + e, 500));
      parts[e % 3 == 0 ? 0 : 1].amounts.push_back(length);
    }
    for (const bool until_all : {false, true}) {
      const Counts counts = mixture_counts(parts, until_all);
      std::vector<double> tokens;
      for (std::size_t i = 0; i < 2; ++i) {
        const auto& amounts = parts[i].amounts;
        const std::int64_t whole = counts[i] / std::ssize(amounts);
        double sum = 0;
        for (const std::int32_t amount : amounts) sum += static_cast<double>(whole * amount);
        for (const std::uint32_t e :
             choose_examples(std::ssize(amounts), counts[i] % std::ssize(amounts))) {
          sum += amounts[e];
        }
        tokens.push_back(sum);
      }
      EXPECT_NEAR(tokens[0], 0.35 * (tokens[0] + tokens[1]), 500) << seed;
    }
  }
}

TEST(Mixture, WhatIsNotTrainedFillsNoShare) {
  MixturePart half = part_of(0.5, 100);
  std::fill(half.amounts.begin(), half.amounts.begin() + 50, 0);
  const Counts counts = mixture_counts(std::vector{half, part_of(0.5, 1000)}, false);
  EXPECT_EQ(counts[1], 50);
  EXPECT_GT(counts[0], 90);
}

TEST(CountToChoose, ComesClosest) {
  const std::vector<std::int32_t> ones(20, 1);
  for (const auto& [wanted, count] :
       {std::pair{0.0, 0}, {0.4, 0}, {0.6, 1}, {7.4, 7}, {7.6, 8}, {19.7, 20}, {30.0, 20}}) {
    EXPECT_EQ(count_to_choose(ones, wanted), count) << wanted;
  }
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
}  // namespace packtrain::mixture_test
