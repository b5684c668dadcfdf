#include "framework/core/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace packtrain {
namespace {

TEST(CounterRandom, StreamsDifferBySeedNameAndIndexAndRepeatThemselves) {
  const CounterRandom stream(1, "name", 2);
  EXPECT_EQ(stream.bits(7), CounterRandom(1, "name", 2).bits(7));
  EXPECT_NE(stream.bits(7), stream.bits(8));
  EXPECT_NE(stream.bits(7), CounterRandom(2, "name", 2).bits(7));
  EXPECT_NE(stream.bits(7), CounterRandom(1, "other", 2).bits(7));
  EXPECT_NE(stream.bits(7), CounterRandom(1, "name", 3).bits(7));
}

TEST(CounterRandom, UniformAndNormalHaveTheirMoments) {
  constexpr int kDraws = 100'000;
  const CounterRandom stream(3, "moments");
  double uniform_sum = 0.0;
  double normal_sum = 0.0;
  double normal_squares = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    uniform_sum += u;
    const double n = stream.normal(static_cast<std::uint64_t>(i));
    normal_sum += n;
    normal_squares += n * n;
  }
  const double tolerance = 5.0 / std::sqrt(kDraws);  // five standard errors
  EXPECT_NEAR(uniform_sum / kDraws, 0.5, tolerance);
  EXPECT_NEAR(normal_sum / kDraws, 0.0, tolerance);
  EXPECT_NEAR(normal_squares / kDraws, 1.0, 2.0 * tolerance);
}

TEST(CounterRandom, BelowIsUniformOverItsBound) {
  constexpr int kDraws = 60'000;
  std::array<int, 6> counts{};
  const CounterRandom stream(4, "dice");
  for (int i = 0; i < kDraws; ++i) ++counts.at(stream.below(static_cast<std::uint64_t>(i), 6));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 6.0, 500);
}

}  // namespace
}  // namespace packtrain
