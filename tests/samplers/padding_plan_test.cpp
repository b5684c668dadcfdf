// The plans of `padding` and `padding_free`.
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "samplers/planner.h"
#include "tests/samplers/lengths.h"
#include "tests/samplers/pack_options.h"
#include "tests/samplers/plan_errors.h"

namespace packtrain::padding_plan_test {
namespace {

using test::draw_examples;
using test::error_of;
using test::Examples;
using test::examples_of;
using test::expect_contains;
using test::kLongest;
using test::make_planner;

TEST(PaddingFreePlan, DealsChunksToRanksInTurn) {
  const Examples examples = examples_of({4, 8, 5, 11, 3, 2, 9});
  PlanOptions options;
  options.strategy = Strategy::kPaddingFree;
  options.order = OrderKind::kSequential;
  options.micro_batch_size = 2;
  options.num_ranks = 3;
  options.global_batch_size = 7;
  const StepPlan plan = make_planner(examples, options).plan(0);
  ASSERT_EQ(plan.num_micro_batches(), 2);
  const auto piece = [](std::int64_t example, std::int32_t length) {
    return Piece{.example = example, .begin = 0, .length = length, .continues = false};
  };
  EXPECT_EQ(plan.ranks[0][0], (MicroBatch{piece(0, 4), piece(1, 8)}));
  EXPECT_EQ(plan.ranks[1][0], (MicroBatch{piece(2, 5), piece(3, 11)}));
  EXPECT_EQ(plan.ranks[2][0], (MicroBatch{piece(4, 3), piece(5, 2)}));
  EXPECT_EQ(plan.ranks[0][1], (MicroBatch{piece(6, 9)}));
  EXPECT_TRUE(plan.ranks[1][1].empty());
  EXPECT_TRUE(plan.ranks[2][1].empty());
}

TEST(PaddingFreePlan, RefusesABudgetThatAShuffleMightExceed) {
  PlanOptions options;
  options.strategy = Strategy::kPaddingFree;
  options.micro_batch_size = 2;
  options.max_tokens_per_micro_batch = 19;
  const Examples examples = examples_of({4, 9, 5, 11, 3});
  const Error error = error_of(examples, options);
  EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  expect_contains(error.message(), "example 3 with 11 tokens");
  expect_contains(error.message(), "20 tokens, more than batch.max_tokens_per_micro_batch = 19");
  expect_contains(error.advice(), "batch.micro_batch_size");
  options.max_tokens_per_micro_batch = 20;
  EXPECT_NO_THROW(make_planner(examples, options));
}

TEST(PaddingPlan, HasTheMicroBatchesOfPaddingFree) {
  const Examples examples = draw_examples(3, 100, kLongest);
  PlanOptions options;
  options.strategy = Strategy::kPadding;
  options.num_ranks = 3;
  const Planner padding = make_planner(examples, options);
  options.strategy = Strategy::kPaddingFree;
  const Planner padding_free = make_planner(examples, options);
  for (std::int64_t step = 0; step < padding.num_steps(1); ++step) {
    EXPECT_EQ(padding.plan(step).ranks, padding_free.plan(step).ranks);
  }
}

TEST(PaddingPlan, RefusesABudgetThatPadsMightExceed) {
  PlanOptions options;
  options.strategy = Strategy::kPadding;
  options.micro_batch_size = 2;
  options.max_tokens_per_micro_batch = 21;
  const Examples examples = examples_of({4, 9, 5, 11, 3});
  const Error error = error_of(examples, options);
  EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  expect_contains(error.message(),
                  "pad 2 examples to the longest of all (example 3 with 11 tokens)");
  expect_contains(error.message(), "22 rows in one micro-batch");
  options.max_tokens_per_micro_batch = 22;
  EXPECT_NO_THROW(make_planner(examples, options));
}

}  // namespace
}  // namespace packtrain::padding_plan_test
