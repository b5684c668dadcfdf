#include "training/steps/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "framework/core/error.h"

namespace packtrain {
namespace {

ScheduleSection section(ScheduleKind kind, std::int64_t warmup, double min_ratio) {
  ScheduleSection schedule;
  schedule.name = kind;
  schedule.warmup_steps = warmup;
  schedule.min_ratio = min_ratio;
  return schedule;
}

TEST(LearningRate, WarmsUpLinearlyWithoutAStepAtZero) {
  const LearningRate rate(1.0, section(ScheduleKind::kConstant, 4, 0.0), 100);
  EXPECT_DOUBLE_EQ(rate.at(0), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(3), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(4), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(99), 1.0);
}

TEST(LearningRate, DecaysFromTheHighestToTheLeastOnTheLastStep) {
  for (const ScheduleKind kind : {ScheduleKind::kCosine, ScheduleKind::kLinear}) {
    const LearningRate rate(2.0, section(kind, 10, 0.1), 111);
    EXPECT_DOUBLE_EQ(rate.at(10), 2.0);
    EXPECT_DOUBLE_EQ(rate.at(110), 0.2);
    EXPECT_NEAR(rate.at(60), 0.5 * (2.0 + 0.2), 1e-12);
    for (int step = 11; step < 111; ++step) EXPECT_LT(rate.at(step), rate.at(step - 1));
  }
}

TEST(LearningRate, TakesTheWarmUpAsAShareOfTheRun) {
  ScheduleSection schedule;
  schedule.warmup_ratio = 0.03;
  EXPECT_EQ(LearningRate(1.0, schedule, 1000).warmup_steps(), 30);
  EXPECT_EQ(LearningRate(1.0, schedule, 10).warmup_steps(), 1);
}

TEST(LearningRate, WorksForTheShortestRuns) {
  const LearningRate one(1.0, section(ScheduleKind::kCosine, 0, 0.0), 1);
  EXPECT_DOUBLE_EQ(one.at(0), 1.0);
  const LearningRate all_warmup(1.0, section(ScheduleKind::kCosine, 2, 0.0), 2);
  EXPECT_DOUBLE_EQ(all_warmup.at(1), 1.0);
}

TEST(LearningRate, RefusesAWarmUpLongerThanTheRun) {
  EXPECT_THROW(LearningRate(1.0, section(ScheduleKind::kLinear, 11, 0.0), 10), Error);
}

// Hu et al., "MiniCPM", arXiv 2404.06395, section 4.2: warm-up, stable, and a decay of D steps.
TEST(LearningRate, WarmupStableDecayFollowsItsFormula) {
  const std::pair<DecayShape, std::function<double(double)>> shapes[] = {
      {DecayShape::kLinear, [](double x) { return 1 - x; }},
      {DecayShape::kCosine, [](double x) { return 0.5 * (1 + std::cos(std::numbers::pi * x)); }},
      {DecayShape::kOneMinusSqrt, [](double x) { return 1 - std::sqrt(x); }}};
  for (const auto& [shape, f] : shapes) {
    ScheduleSection schedule = section(ScheduleKind::kWarmupStableDecay, 10, 0.1);
    schedule.decay_steps = 20;
    schedule.decay_shape = shape;
    const LearningRate rate(2.0, schedule, 100);
    for (int step = 0; step < 10; ++step) EXPECT_DOUBLE_EQ(rate.at(step), 2.0 * (step + 1) / 10);
    for (int step = 10; step < 80; ++step) EXPECT_DOUBLE_EQ(rate.at(step), 2.0);
    for (int step = 80; step < 100; ++step) {
      EXPECT_DOUBLE_EQ(rate.at(step), 2.0 * (0.1 + 0.9 * f((step - 79) / 20.0))) << step;
    }
    EXPECT_DOUBLE_EQ(rate.at(99), 0.2);
  }
}

TEST(LearningRate, TheDecayIsAShareOfTheRunWhereItsStepsAreNotGiven) {
  ScheduleSection schedule = section(ScheduleKind::kWarmupStableDecay, 0, 0.0);
  schedule.decay_ratio = 0.25;
  const LearningRate rate(1.0, schedule, 10);  // ceil(2.5) = 3 steps
  EXPECT_DOUBLE_EQ(rate.at(6), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(7), 1 - 1 / 3.0);
  EXPECT_DOUBLE_EQ(rate.at(9), 0.0);
}

TEST(LearningRate, RefusesADecayThatIsLongerThanTheRun) {
  ScheduleSection schedule = section(ScheduleKind::kWarmupStableDecay, 5, 0.0);
  schedule.decay_steps = 6;
  EXPECT_THROW(LearningRate(1.0, schedule, 10), Error);
  EXPECT_FALSE(schedule_fits(schedule, 10));
  EXPECT_DOUBLE_EQ(LearningRate(1.0, schedule, 11).at(10), 0.0);
}

// Vaswani et al., "Attention Is All You Need", 2017, section 5.3, with steps s from 1:
// min(s^-0.5, s W^-1.5), here over its highest value W^-0.5.
TEST(LearningRate, InverseSqrtFollowsItsFormula) {
  const double warmup = 16;
  const LearningRate rate(3.0, section(ScheduleKind::kInverseSqrt, 16, 0.0), 1000);
  for (int s = 1; s <= 1000; ++s) {
    const double wanted = std::min(std::pow(s, -0.5), s * std::pow(warmup, -1.5));
    EXPECT_NEAR(rate.at(s - 1), 3.0 * wanted / std::pow(warmup, -0.5), 1e-12) << s;
  }
}

TEST(LearningRate, InverseSqrtDoesNotFallBelowItsLeast) {
  const LearningRate rate(1.0, section(ScheduleKind::kInverseSqrt, 1, 0.1), 10000);
  EXPECT_DOUBLE_EQ(rate.at(98), std::sqrt(1 / 99.0));
  EXPECT_DOUBLE_EQ(rate.at(9999), 0.1);
}

// A run with steps of half as many examples from step 10 of 13 on: 6 steps are left.
TEST(LearningRate, ContinuesByShareOfTheRunWithOtherBatches) {
  for (const ScheduleKind kind : {ScheduleKind::kCosine, ScheduleKind::kLinear}) {
    const LearningRate before(1.0, section(kind, 4, 0.1), 13);
    const LearningRate after(1.0, section(kind, 4, 0.1), 16, {.step = 10, .position = 20});
    EXPECT_LT(after.at(10), before.at(9));
    EXPECT_GT(after.at(10), before.at(11));
    for (int step = 11; step < 16; ++step) EXPECT_LT(after.at(step), after.at(step - 1));
    EXPECT_DOUBLE_EQ(after.at(15), 0.1);
  }
}

TEST(LearningRate, AWarmUpInStepsContinuesStepByStepWithOtherBatches) {
  const LearningRate rate(1.0, section(ScheduleKind::kCosine, 8, 0.1), 50,
                          {.step = 4, .position = 2});
  EXPECT_DOUBLE_EQ(rate.at(4), 5 / 8.0);
  EXPECT_DOUBLE_EQ(rate.at(7), 1.0);
  EXPECT_DOUBLE_EQ(rate.at(8), 1.0);
  EXPECT_LT(rate.at(9), 1.0);
  const LearningRate over(1.0, section(ScheduleKind::kCosine, 8, 0.1), 50,
                          {.step = 10, .position = 5});
  EXPECT_LT(over.at(10), 1.0) << "what is over does not come again";
}

}  // namespace
}  // namespace packtrain
