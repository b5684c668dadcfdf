#include "framework/training/steps/learning_rate.h"

#include <gtest/gtest.h>

#include "framework/support/error.h"

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

}  // namespace
}  // namespace packtrain
