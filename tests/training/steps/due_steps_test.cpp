#include "training/steps/due_steps.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/samplers/lengths.h"

namespace packtrain {
namespace {

const test::EveryTokenCounts kCounter;

// 26 examples in steps of 2: 13 an epoch.
struct Plan {
  test::Examples examples = test::examples_of(std::vector<std::int32_t>(26, 8));
  Planner planner{examples.lengths, examples.num_loss_tokens, kCounter, options()};

  static PlanOptions options() {
    PlanOptions options;
    options.global_batch_size = 2;
    return options;
  }
};

Interval share_of_the_run(double share) {
  Interval interval;
  interval.share = share;
  return interval;
}

Interval every_epoch() {
  Interval interval;
  interval.epoch = true;
  return interval;
}

std::vector<std::int64_t> due(const Interval& interval, std::int64_t total_steps) {
  const Plan plan;
  std::vector<std::int64_t> steps;
  for (std::int64_t done = 0; done <= total_steps; ++done) {
    if (is_due(interval, done, total_steps, plan.planner)) steps.push_back(done);
  }
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST(DueSteps, ANumberOfStepsIsDueAtItsMultiples) {
  EXPECT_EQ(due(5, 16), (Steps{5, 10, 15}));
  EXPECT_EQ(due(0, 16), Steps{});
}

TEST(DueSteps, AnEpochIsDueAfterItsLastStep) {
  EXPECT_EQ(due(every_epoch(), 40), (Steps{13, 26, 39}));
}

TEST(DueSteps, AShareIsDueEvenlyOverTheRun) {
  EXPECT_EQ(due(share_of_the_run(0.1), 26), (Steps{3, 6, 8, 11, 13, 16, 19, 21, 24, 26}));
  EXPECT_EQ(due(share_of_the_run(0.25), 100), (Steps{25, 50, 75, 100}));
  EXPECT_EQ(due(share_of_the_run(0.4), 10), (Steps{4, 8}));
  EXPECT_EQ(due(share_of_the_run(0.01), 3), (Steps{1, 2, 3})) << "once a step at most";
}

TEST(DueSteps, TenthsOfAnyRunAreTen) {
  for (std::int64_t total = 10; total < 2000; total += 7) {
    EXPECT_EQ(due(share_of_the_run(0.1), total).size(), 10U) << total;
  }
}

TEST(DueSteps, ADescriptionNamesTheFirstOnesAndTheLast) {
  const Plan plan;
  EXPECT_EQ(describe_due(every_epoch(), true, 100, plan.planner),
            "after steps 13, 26, 39, ..., 100");
  EXPECT_EQ(describe_due(10, false, 25, plan.planner), "after steps 10, 20");
  EXPECT_EQ(describe_due(0, true, 25, plan.planner), "after step 25");
  EXPECT_EQ(describe_due(0, false, 25, plan.planner), "never");
}

TEST(RunLength, IsSaidInStepsAndEpochs) {
  const Plan plan;
  RunSection run;
  run.num_epochs = 2;
  EXPECT_EQ(describe_length(run, plan.planner), "26 steps = 2 epochs of 13 steps");
  run.num_epochs = 1;
  run.max_steps = 100;
  EXPECT_EQ(describe_length(run, plan.planner),
            "100 steps = 7.692 epochs of 13 steps (run.max_steps; run.num_epochs: 1 does not "
            "count)");
}

}  // namespace
}  // namespace packtrain
