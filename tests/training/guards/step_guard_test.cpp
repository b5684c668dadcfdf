// Tests how a run handles steps with non-finite numbers and spikes.
#include "training/guards/step_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "framework/core/error.h"

namespace packtrain {
namespace {

using Verdict = StepGuard::Verdict;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

StepOutcome::Values outcome(double loss, double norm, const RefusalBounds& bounds = {}) {
  const bool applied = std::isfinite(loss + norm) && loss <= bounds.loss && norm <= bounds.norm;
  return {.loss = loss,
          .grad_norm = norm,
          .applied = applied,
          .requests = {},
          .num_ranks_out_of_memory = 0,
          .details = {}};
}

GuardSection with(NonFinite non_finite, Spikes spikes = Spikes::kIgnore) {
  GuardSection options;
  options.non_finite = non_finite;
  options.spikes = spikes;
  options.spike_window = 16;
  return options;
}

// A norm that goes up and down by 10 %.
double usual(std::int64_t step) {
  return 1.0 + 0.1 * static_cast<double>(step % 3 - 1);
}

// Steps `first` .. `last` as a trainer has them judged; the verdict of the last.
Verdict judge_usual(StepGuard& guard, std::int64_t first, std::int64_t last) {
  Verdict verdict = Verdict::kApplied;
  for (std::int64_t step = first; step <= last; ++step) {
    verdict = guard.judge(step, outcome(usual(step), usual(step), guard.bounds(step)));
  }
  return verdict;
}

std::optional<ErrorCategory> error_of(StepGuard& guard, std::int64_t step, double loss) {
  try {
    guard.judge(step, outcome(loss, 1.0));
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("step " + std::to_string(step)), std::string::npos);
    return error.category();
  }
  return std::nullopt;
}

TEST(StepGuard, StopsAtANumberThatIsNotFinite) {
  StepGuard guard(with(NonFinite::kStop), {}, "");
  EXPECT_EQ(judge_usual(guard, 1, 5), Verdict::kApplied);
  EXPECT_EQ(error_of(guard, 6, kNan), ErrorCategory::kNonFinite);
}

std::string advice_of(StepGuard& guard, std::int64_t step) {
  try {
    guard.judge(step, outcome(kNan, 1.0));
  } catch (const Error& error) {
    return error.advice();
  }
  return "";
}

TEST(StepGuard, BlamesTheLearningRateOnlyAfterAnUpdate) {
  StepGuard untrained(with(NonFinite::kStop), {}, "");
  const std::string first = advice_of(untrained, 1);
  EXPECT_NE(first.find("No update was made before it"), std::string::npos) << first;
  EXPECT_EQ(first.find("checkpoint"), std::string::npos) << first;
  StepGuard trained(with(NonFinite::kStop), {}, "");
  judge_usual(trained, 1, 1);
  EXPECT_NE(advice_of(trained, 2).find("Lower optimizer.learning_rate"), std::string::npos);
}

TEST(StepGuard, BlamesNoLearningRateWhereEachStepWasSkipped) {
  GuardSection options = with(NonFinite::kSkip);
  options.max_skipped_steps = 2;
  StepGuard guard(options, {}, "");
  EXPECT_EQ(advice_of(guard, 1), "");
  EXPECT_EQ(advice_of(guard, 2), "");
  EXPECT_NE(advice_of(guard, 3).find("No update was made before it"), std::string::npos);
}

TEST(StepGuard, SkipsAsManyInARowAsItMay) {
  GuardSection options = with(NonFinite::kSkip);
  options.max_skipped_steps = 2;
  StepGuard guard(options, {}, "");
  EXPECT_EQ(guard.judge(1, outcome(kNan, 1)), Verdict::kSkipped);
  EXPECT_EQ(guard.judge(2, outcome(1, kInfinity)), Verdict::kSkipped);
  EXPECT_EQ(guard.judge(3, outcome(1, 1)), Verdict::kApplied);
  EXPECT_EQ(guard.judge(4, outcome(kNan, 1)), Verdict::kSkipped);
  EXPECT_EQ(guard.judge(5, outcome(kNan, 1)), Verdict::kSkipped);
  EXPECT_EQ(error_of(guard, 6, kNan), ErrorCategory::kNonFinite);
}

TEST(StepGuard, ASpikeIsRefusedAndDoesNotWidenTheBound) {
  StepGuard guard(with(NonFinite::kStop, Spikes::kSkip), {}, "");
  EXPECT_EQ(guard.bounds(1).norm, kInfinity);  // nothing is known yet
  judge_usual(guard, 1, 30);
  const double bound = guard.bounds(31).norm;
  EXPECT_GT(bound, 1.2);
  EXPECT_LT(bound, 2.5);
  EXPECT_EQ(guard.judge(31, outcome(1, 50, guard.bounds(31))), Verdict::kSkipped);
  EXPECT_EQ(guard.judge(32, outcome(50, 1, guard.bounds(32))), Verdict::kSkipped);
  EXPECT_LT(guard.bounds(33).norm, 2.5);
  EXPECT_EQ(judge_usual(guard, 33, 40), Verdict::kApplied);
}

TEST(StepGuard, WithoutVariationALittleMoreIsNoSpike) {
  StepGuard guard(with(NonFinite::kStop, Spikes::kSkip), {}, "");
  for (std::int64_t step = 1; step <= 30; ++step) guard.judge(step, outcome(2, 2));
  EXPECT_GT(guard.bounds(31).loss, 2.05);
}

TEST(StepGuard, WarningsRefuseNothing) {
  StepGuard guard(with(NonFinite::kStop, Spikes::kWarn), {}, "");
  judge_usual(guard, 1, 30);
  EXPECT_EQ(guard.bounds(31).norm, kInfinity);
  EXPECT_EQ(guard.judge(31, outcome(1, 50)), Verdict::kApplied);
}

TEST(StepGuard, DecidesTheSameWhenResumedAtAnyStep) {
  const GuardSection options = with(NonFinite::kSkip, Spikes::kSkip);
  for (const std::int64_t saved : {1, 7, 8, 9, 20, 31}) {
    StepGuard whole(options, {}, "");
    judge_usual(whole, 1, saved);
    StepGuard resumed(options, {}, whole.state());
    for (std::int64_t step = saved + 1; step <= 45; ++step) {
      EXPECT_EQ(resumed.bounds(step).norm, whole.bounds(step).norm) << step;
      EXPECT_EQ(resumed.bounds(step).loss, whole.bounds(step).loss) << step;
      judge_usual(whole, step, step);
      judge_usual(resumed, step, step);
    }
  }
}

TEST(StepGuard, TheSkippedOfBeforeAResumeCount) {
  GuardSection options = with(NonFinite::kSkip);
  options.max_skipped_steps = 2;
  StepGuard first(options, {}, "");
  first.judge(1, outcome(kNan, 1));
  first.judge(2, outcome(kNan, 1));
  StepGuard resumed(options, {}, first.state());
  EXPECT_EQ(error_of(resumed, 3, kNan), ErrorCategory::kNonFinite);
}

TEST(StepGuard, RewindsOnceForAStepAndThenLeavesItOut) {
  StepGuard first(with(NonFinite::kRewind), {}, "");
  EXPECT_EQ(first.judge(3, outcome(kNan, 1)), Verdict::kRewind);
  EXPECT_EQ(first.judge(4, outcome(kNan, 1)), Verdict::kRewind);
  EXPECT_EQ(first.rewind_step(), 3);
  StepGuard second(with(NonFinite::kRewind), {3}, "");
  EXPECT_EQ(second.bounds(2).loss, kInfinity);
  EXPECT_EQ(second.judge(3, outcome(0.5, 0.5, second.bounds(3))), Verdict::kSkipped);
  EXPECT_EQ(second.judge(4, outcome(kNan, 1)), Verdict::kRewind);
}

TEST(StepGuard, RewindsAsOftenAsItMay) {
  GuardSection options = with(NonFinite::kRewind);
  options.max_skipped_steps = 2;
  StepGuard guard(options, {3, 5}, "");
  EXPECT_EQ(error_of(guard, 6, kNan), ErrorCategory::kNonFinite);
}

TEST(StepGuard, ADamagedStateIsAnErrorOfTheCheckpoint) {
  for (const char* state :
       {"[]", "{}", R"({"losses": [1], "norms": [], "num_skipped_in_a_row": 0})"}) {
    try {
      StepGuard(with(NonFinite::kStop), {}, state);
      FAIL() << state;
    } catch (const Error& error) {
      EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
    }
  }
}

}  // namespace
}  // namespace packtrain
