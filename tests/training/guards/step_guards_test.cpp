// Guards of several adapters: each judges the steps of its own.
#include "training/guards/step_guards.h"

#include <gtest/gtest.h>

#include <limits>

#include "framework/core/error.h"

namespace packtrain {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

GuardSection skipping() {
  GuardSection options;
  options.non_finite = NonFinite::kSkip;
  options.spikes = Spikes::kSkip;
  options.spike_window = 4;
  options.max_skipped_steps = 1;
  return options;
}

StepGuards guards(const GuardSection& options, const std::string& state = "") {
  return {options, {"de", "fr"}, {9, 5}, {}, state};
}

StepOutcome::Values losses_of(double first, double second) {
  StepOutcome::Values values;
  for (const double loss : {first, second}) values.adapters.push_back({loss, 1.0, loss == loss});
  return values;
}

TEST(StepGuards, BoundsAreThoseOfEachAdaptersOwnLosses) {
  StepGuards two = guards(skipping());
  for (std::int64_t step = 1; step <= 4; ++step) two.judge(step, losses_of(1.0, 10.0));
  const auto bounds = two.bounds(5);
  ASSERT_EQ(bounds.size(), 2U);
  EXPECT_LT(bounds[0].loss, 2);
  EXPECT_GT(bounds[1].loss, 10);
}

TEST(StepGuards, AnAdapterWhoseStepsAreOverIsNotUpdatedAndNotJudged) {
  StepGuards two = guards(skipping());
  EXPECT_GT(two.bounds(5)[1].loss, 0);
  EXPECT_EQ(two.bounds(6)[1].loss, -std::numeric_limits<double>::infinity());
  for (std::int64_t step = 6; step <= 9; ++step) two.judge(step, losses_of(1.0, kNotANumber));
}

TEST(StepGuards, TheErrorNamesTheAdapterThatSkippedTooOften) {
  StepGuards two = guards(skipping());
  two.judge(1, losses_of(1.0, kNotANumber));
  try {
    two.judge(2, losses_of(kNotANumber, kNotANumber));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kNonFinite);
    EXPECT_TRUE(error.message().starts_with("adapter 'fr': step 2")) << error.message();
  }
}

TEST(StepGuards, DecideTheSameAfterAResume) {
  StepGuards whole = guards(skipping());
  for (std::int64_t step = 1; step <= 4; ++step) whole.judge(step, losses_of(1.0, 10.0));
  const StepGuards resumed = guards(skipping(), whole.state());
  for (const std::size_t adapter : {0, 1}) {
    EXPECT_EQ(resumed.bounds(5)[adapter].loss, whole.bounds(5)[adapter].loss);
  }
}

TEST(StepGuards, OfOneHaveItsState) {
  GuardSection options = skipping();
  const StepGuards one(options, {""}, {9}, {}, "");
  EXPECT_EQ(one.state(), StepGuard(options, {}, "").state());
}

TEST(StepGuards, AMissingStateIsAnErrorOfTheCheckpoint) {
  EXPECT_THROW(guards(skipping(), R"({"de": {}})"), Error);
}

}  // namespace
}  // namespace packtrain
