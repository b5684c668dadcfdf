// Known coefficients and speeds are found again in synthetic timings, with and without noise.
#include "training/plan/cost_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/random.h"

namespace packtrain {
namespace {

constexpr CostModel kCost = {.linear = 2e-5, .quadratic = 1.5e-9, .constant = 4e-3};

std::vector<TimedWork> works_of(const CostModel& cost, double noise, std::uint64_t seed) {
  const CounterRandom random(seed, "test timings");
  std::vector<TimedWork> works = {{16384, 16384.0 * 4096, 0},
                                  {16384, 16384.0 * 200, 0},
                                  {8192, 8192.0 * 4096, 0},
                                  {8192, 8192.0 * 150, 0},
                                  {12288, 12288.0 * 1500, 0}};
  for (std::size_t w = 0; w < works.size(); ++w) {
    TimedWork& work = works[w];
    work.seconds = cost.linear * work.num_tokens + cost.quadratic * work.squares + cost.constant;
    work.seconds *= 1 + noise * (2 * random.uniform(w) - 1);
  }
  return works;
}

TEST(CostFit, FindsKnownCoefficients) {
  const CostModel fit = fit_cost(works_of(kCost, 0, 1));
  EXPECT_NEAR(fit.linear, kCost.linear, 1e-6 * kCost.linear);
  EXPECT_NEAR(fit.quadratic, kCost.quadratic, 1e-6 * kCost.quadratic);
  EXPECT_NEAR(fit.constant, kCost.constant, 1e-5 * kCost.constant);
}

TEST(CostFit, FindsThemInNoise) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto works = works_of(kCost, 0.01, seed);
    const CostModel fit = fit_cost(works);
    EXPECT_NEAR(fit.linear, kCost.linear, 0.06 * kCost.linear) << seed;
    EXPECT_NEAR(fit.quadratic, kCost.quadratic, 0.15 * kCost.quadratic) << seed;
    EXPECT_LT(fit_error(fit, works), 0.01) << seed;
  }
}

TEST(CostFit, IsNeverNegative) {
  // Faster the longer the examples: the quadratic term would be negative.
  const CostModel fit = fit_cost(
      std::vector<TimedWork>{{1000, 1e6, 0.9}, {1000, 1e4, 1.1}, {500, 4e5, 0.4}, {500, 1e4, 0.6}});
  EXPECT_GT(fit.linear, 0);
  EXPECT_EQ(fit.quadratic, 0);
  EXPECT_GE(fit.constant, 0);
}

TEST(CostFit, IsTheBestOfAllThatAreNotNegative) {
  const CounterRandom random(3, "test coefficients");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto works = works_of(kCost, 0.5, seed);
    const double error = fit_error(fit_cost(works), works);
    for (std::uint64_t draw = 0; draw < 200; ++draw) {
      const std::uint64_t i = 3 * (200 * seed + draw);
      const CostModel other = {.linear = 4 * random.uniform(i) * kCost.linear,
                               .quadratic = 4 * random.uniform(i + 1) * kCost.quadratic,
                               .constant = 4 * random.uniform(i + 2) * kCost.constant};
      EXPECT_GE(fit_error(other, works), error);
    }
  }
}

TEST(CostFit, GivesWorkACostEvenWhereItHadNone) {
  const CostModel fit =
      fit_cost(std::vector<TimedWork>{{1000, 1e6, 1.0}, {500, 1e4, 1.0}, {100, 1e3, 1.0}});
  EXPECT_GT(fit.linear + fit.quadratic, 0);
}

TEST(CostFit, CopesWithExamplesAllOfOneLength) {
  std::vector<TimedWork> works;
  for (const double count : {1.0, 2.0, 4.0, 8.0}) {
    works.push_back({100 * count, 100 * 100 * count, 0.5 * count});
  }
  EXPECT_LT(fit_error(fit_cost(works), works), 1e-9);
}

// Returns timings [ranks][repeats][works]. The first work takes 1 s and the second 3 s, times the
// slowness of the rank. The last of three repeats was disturbed.
Timings timings_of(const std::vector<double>& slowness, double disturbance) {
  std::vector<double> seconds;
  for (const double slow : slowness) {
    for (const double factor : {1.0, 1.0, disturbance}) {
      seconds.insert(seconds.end(), {slow * factor, 3 * slow * factor});
    }
  }
  return {static_cast<int>(slowness.size()), 3, 2, std::move(seconds)};
}

TEST(RankSpeeds, AreTheInverseOfTheTimes) {
  const auto speeds = timings_of({0.5, 1.5}, 1.0).speeds();
  EXPECT_NEAR(speeds[0], 2.0, 1e-12);
  EXPECT_NEAR(speeds[1], 1.0 / 1.5, 1e-12);
  EXPECT_NEAR(timings_of({0.5, 1.5}, 1.0).mean_seconds()[1], 3.0, 1e-12);
}

TEST(RankSpeeds, OfRanksThatDifferByNoiseAreExactlyOne) {
  EXPECT_EQ(timings_of({1.0, 1.015, 0.985, 1.01}, 1.0).speeds(), std::vector<double>(4, 1.0));
  const auto one_slow = timings_of({1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.07}, 1.0).speeds();
  EXPECT_EQ(one_slow[0], 1.0);
  EXPECT_LT(one_slow[7], 0.96);
}

TEST(RankSpeeds, ADisturbedRepeatMovesNoSpeedButRaisesTheNoise) {
  EXPECT_EQ(timings_of({1.0, 1.0}, 1.0).noise(), kMinNoise);
  const Timings disturbed = timings_of({0.96, 1.04}, 1.5);
  EXPECT_NEAR(disturbed.noise(), 0.25, 1e-9);
  EXPECT_NEAR(disturbed.mean_seconds()[0], 1.0, 1e-12);
  EXPECT_EQ(disturbed.speeds(), std::vector<double>(2, 1.0));
}

TEST(RankSpeeds, AreClamped) {
  const auto speeds = timings_of({0.01, 1.0, 1.0, 1.0, 30.0}, 1.0).speeds();
  EXPECT_EQ(speeds[0], kMaxSpeed);
  EXPECT_EQ(speeds[4], kMinSpeed);
}

TEST(RankSpeeds, OfOneRankIsOne) {
  EXPECT_EQ(timings_of({2.0}, 1.0).speeds(), std::vector<double>(1, 1.0));
}

}  // namespace
}  // namespace packtrain
