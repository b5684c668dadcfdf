#include "training/plan/plan_advice.h"

#include <gtest/gtest.h>

#include <vector>

namespace packtrain {
namespace {

PlanSummaryOptions plan_summary_options(std::int64_t budget) {
  PlanSummaryOptions options;
  options.max_tokens_per_micro_batch = budget;
  return options;
}

PlanOptions plan_options() {
  PlanOptions options;
  options.max_length = 1000;
  options.max_tokens_per_micro_batch = 100'000;
  options.num_ranks = 8;
  options.global_batch_size = 8;
  return options;
}

// One example of 100 tokens for every 7 of 10.
std::vector<std::int32_t> one_long_of_eight() {
  std::vector<std::int32_t> lengths(4096, 10);
  for (std::size_t e = 0; e < lengths.size(); e += 8) lengths[e] = 100;
  return lengths;
}

TEST(PlanAdvice, FindsTheLeastDoublingAndTheFirstHalvingThatReachTheTarget) {
  PlanOptions options = plan_options();
  options.order = OrderKind::kSequential;  // every step of 8 has one long example
  const PlanAdvice advice =
      advise(one_long_of_eight(), options, plan_summary_options(100'000), 0.95);
  // 170 tokens a step: a rank with the long example has 100. 1 rank always reaches 1; 2 ranks at
  // most 0.85; 8 ranks from 64 examples on (1360 tokens, 170 a rank).
  ASSERT_TRUE(advice.num_ranks.has_value());
  EXPECT_EQ(advice.num_ranks->value, 1);
  ASSERT_TRUE(advice.batch_size.has_value());
  EXPECT_EQ(advice.batch_size->value, 64);
  EXPECT_GE(advice.batch_size->utilization.reached, 0.95);
  EXPECT_FALSE(advice.balanced.has_value());  // it is balanced
}

TEST(PlanAdvice, SaysWhatBalancingWouldReach) {
  PlanOptions options = plan_options();
  options.strategy = Strategy::kPaddingFree;
  options.global_batch_size = 64;
  const PlanAdvice advice =
      advise(one_long_of_eight(), options, plan_summary_options(100'000), 0.95);
  ASSERT_TRUE(advice.balanced.has_value());
  EXPECT_GT(advice.balanced->reached, 0.9);
}

TEST(PlanAdvice, GivesNoneThatCannotBePlanned) {
  const std::vector<std::int32_t> lengths(4, 10);  // fewer than a batch
  const PlanAdvice advice = advise(lengths, plan_options(), plan_summary_options(100'000), 0.95);
  EXPECT_FALSE(advice.batch_size.has_value());
  ASSERT_TRUE(advice.num_ranks.has_value());
  EXPECT_EQ(advice.num_ranks->value, 4);
}

}  // namespace
}  // namespace packtrain
