#include "training/comparison/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/training/comparison/runs.h"

namespace packtrain {
namespace {

using test::make_run;

const VariantFigures& figures_of(const Comparison& comparison, const std::string& strategy) {
  for (const VariantFigures& figures : comparison.variants) {
    if (figures.variant == strategy) return figures;
  }
  throw std::runtime_error("no strategy " + strategy);
}

TEST(DeviceTime, CountsWarmupStepsLikeTheOthers) {
  const RunHistory history = make_run({.strategy = "padding", .num_steps = 5}).history;
  const std::vector<double> seconds = device_seconds(history);
  ASSERT_EQ(seconds.size(), 5U);
  for (std::size_t k = 0; k < seconds.size(); ++k) {
    EXPECT_DOUBLE_EQ(seconds[k], 0.5 * static_cast<double>(k + 1));
  }
}

TEST(DeviceTime, OfARunOfWarmupStepsIsTheirs) {
  const RunHistory history = make_run({.strategy = "padding", .num_steps = 2}).history;
  EXPECT_DOUBLE_EQ(device_seconds(history).back(), 18.0);
}

TEST(DeviceTime, OfAnEvaluationBeforeTheFirstStepIsZero) {
  RunHistory history = make_run({.strategy = "padding", .num_steps = 4}).history;
  EvaluationRecord at_start;
  at_start.step = 0;
  at_start.loss = 9;
  history.evaluations.insert(history.evaluations.begin(), at_start);
  const std::vector<CurvePoint> curve = loss_over_seconds(history);
  ASSERT_EQ(curve.size(), 3U);
  EXPECT_EQ(curve[0].x, 0);
  EXPECT_DOUBLE_EQ(curve[1].x, 1.0);
}

TEST(Comparison, SpeedsLeaveWarmupOutAndCountOneDevice) {
  const auto comparison = compare_runs({make_run({.strategy = "padding"})}, 2, {});
  const VariantFigures& padding = comparison.variants.front();
  EXPECT_DOUBLE_EQ(padding.tokens_per_second_per_device->mean, 100 / 0.5 / 2);
  EXPECT_DOUBLE_EQ(padding.peak_memory_gib->mean, 8);
  EXPECT_DOUBLE_EQ(padding.padding_fraction->mean, 0.25);
  EXPECT_DOUBLE_EQ(padding.cost_utilization->mean, 0.75);
  EXPECT_DOUBLE_EQ(padding.training_loss->mean, 4.5);  // of 8 steps: all
}

TEST(Comparison, LossesThatAreNotFiniteAreLeftOutOfTheMeanAndCounted) {
  ComparedRun run = make_run({.strategy = "padding"});
  run.history.steps.at(7).loss = std::numeric_limits<double>::quiet_NaN();
  run.history.evaluations.back().loss = std::numeric_limits<double>::quiet_NaN();
  const VariantFigures padding = compare_runs({run}, 1, {}).variants.front();
  EXPECT_DOUBLE_EQ(padding.training_loss->mean, 4);  // of steps 1 to 7
  EXPECT_EQ(padding.num_losses_left_out, 1);
  EXPECT_FALSE(padding.validation_loss);
}

TEST(Comparison, SpeedUpIsOverPaddingWithTheSameSeed) {
  const auto comparison =
      compare_runs({make_run({.strategy = "padding", .seed = 0, .step_time_s = 1.0}),
                    make_run({.strategy = "balanced", .seed = 0, .step_time_s = 0.5}),
                    make_run({.strategy = "padding", .seed = 1, .step_time_s = 2.0}),
                    make_run({.strategy = "balanced", .seed = 1, .step_time_s = 0.5})},
                   1, {});
  const auto& speedup = figures_of(comparison, "balanced").speedup;
  EXPECT_DOUBLE_EQ(speedup->mean, 3.0);
  EXPECT_DOUBLE_EQ(speedup->spread, std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(figures_of(comparison, "padding").speedup->mean, 1.0);
}

TEST(Comparison, WithoutPaddingThereIsNoSpeedUp) {
  const auto comparison = compare_runs({make_run({.strategy = "balanced"})}, 1, {});
  EXPECT_FALSE(comparison.variants.front().speedup);
}

TEST(Comparison, EqualStepsAreThoseOfTheShortestRun) {
  const auto comparison =
      compare_runs({make_run({.strategy = "balanced", .num_steps = 8, .final_loss = 2}),
                    make_run({.strategy = "multipack", .num_steps = 5, .final_loss = 3})},
                   1, {});
  EXPECT_EQ(comparison.equal_steps, 5);
  EXPECT_DOUBLE_EQ(figures_of(comparison, "balanced").loss_at_equal_steps->mean, 5);
  EXPECT_DOUBLE_EQ(figures_of(comparison, "multipack").loss_at_equal_steps->mean, 3);
  EXPECT_DOUBLE_EQ(figures_of(comparison, "balanced").validation_loss->mean, 2);
}

TEST(Comparison, EqualTimeIsThatOfTheFastestRun) {
  std::vector<ComparedRun> runs = {
      make_run({.strategy = "padding", .num_steps = 8, .step_time_s = 1.0}),
      make_run({.strategy = "balanced", .num_steps = 8, .step_time_s = 0.625})};
  const auto comparison = compare_runs(runs, 1, {});
  EXPECT_DOUBLE_EQ(comparison.equal_seconds, 5.0);
  EXPECT_DOUBLE_EQ(figures_of(comparison, "padding").loss_at_equal_time->mean, 5);  // 3 steps more
  EXPECT_DOUBLE_EQ(figures_of(comparison, "balanced").loss_at_equal_time->mean, 2);

  const auto at_six = compare_runs(runs, 1, {.device_time_s = 6.0});
  EXPECT_DOUBLE_EQ(figures_of(at_six, "padding").loss_at_equal_time->mean, 4);
  EXPECT_FALSE(figures_of(at_six, "balanced").loss_at_equal_time);  // over before
}

TEST(Comparison, WithoutEvaluationsThereAreNoLosses) {
  ComparedRun run = make_run({.strategy = "balanced"});
  run.history.evaluations.clear();
  const auto comparison = compare_runs({run}, 1, {});
  EXPECT_FALSE(comparison.variants.front().validation_loss);
  EXPECT_FALSE(comparison.variants.front().loss_at_equal_steps);
  EXPECT_TRUE(comparison.variants.front().training_loss);
}

TEST(Comparison, SpreadIsTheSampleStandardDeviationOverSeeds) {
  std::vector<ComparedRun> runs;
  for (const std::uint64_t seed : {0, 1, 2}) {
    runs.push_back(make_run(
        {.strategy = "balanced", .seed = seed, .final_loss = 2.0 + static_cast<double>(seed)}));
  }
  const auto comparison = compare_runs(runs, 1, {});
  EXPECT_EQ(comparison.seeds, (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_DOUBLE_EQ(comparison.variants.front().validation_loss->mean, 3);
  EXPECT_DOUBLE_EQ(comparison.variants.front().validation_loss->spread, 1);
}

// Losses fall by one a step to 2 after 8 steps, at 0.5 s a step.
TEST(Comparison, TheTargetIsReachedBetweenTwoEvaluations) {
  ComparedRun run = make_run({.strategy = "1e-5"});
  run.energy = {{0, 10}, {4, 50}, {8, 90}};
  const auto figures = compare_runs({run}, 1, {.target_loss = 4.5}).variants.front();
  EXPECT_DOUBLE_EQ(figures.seconds_to_target->mean, 2.75);  // after 5.5 steps
  EXPECT_DOUBLE_EQ(figures.joules_to_target->mean, 65);
  EXPECT_DOUBLE_EQ(figures.joules->mean, 90);
  const auto never = compare_runs({run}, 1, {.target_loss = 1.5}).variants.front();
  EXPECT_FALSE(never.seconds_to_target || never.joules_to_target);
}

TEST(Comparison, DifferencesToTheFirstVariantArePairedBySeed) {
  const auto comparison = compare_runs({make_run({.strategy = "1", .seed = 7, .final_loss = 2.0}),
                                        make_run({.strategy = "2", .seed = 7, .final_loss = 2.5}),
                                        make_run({.strategy = "1", .seed = 8, .final_loss = 4.0}),
                                        make_run({.strategy = "2", .seed = 8, .final_loss = 4.7})},
                                       1, {.key = "run.num_epochs"});
  EXPECT_FALSE(figures_of(comparison, "1").differences.validation_loss);
  const auto& difference = figures_of(comparison, "2").differences.validation_loss;
  EXPECT_EQ(difference->num_pairs, 2);
  EXPECT_NEAR(difference->mean, 0.6, 1e-12);
  // s = 0.1 sqrt(2), so that the standard error is 0.1; t(0.975, 1) = 12.7062.
  EXPECT_NEAR(difference->half_interval.value(), 1.27062, 1e-5);
  EXPECT_FALSE(figures_of(comparison, "2").differences.joules);
}

TEST(Comparison, SpeedUpsOfAnotherKeyAreOverItsFirstValue) {
  const auto comparison = compare_runs({make_run({.strategy = "fp32", .step_time_s = 1.0}),
                                        make_run({.strategy = "bf16", .step_time_s = 0.5})},
                                       1, {.key = "precision.compute"});
  EXPECT_DOUBLE_EQ(figures_of(comparison, "bf16").speedup->mean, 2);
}

}  // namespace
}  // namespace packtrain
