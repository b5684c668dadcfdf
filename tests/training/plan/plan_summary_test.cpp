// Figures of plans made by hand.
#include "training/plan/plan_summary.h"

#include <gtest/gtest.h>

namespace packtrain {
namespace {

MicroBatch pieces_of(std::initializer_list<std::int32_t> lengths) {
  MicroBatch pieces;
  for (const std::int32_t length : lengths) pieces.push_back({.length = length});
  return pieces;
}

StepPlan plan_of(Assignment ranks) {
  StepPlan plan;
  plan.ranks = std::move(ranks);
  for (const auto& rank : plan.ranks) {
    for (const MicroBatch& pieces : rank) {
      for (const Piece& piece : pieces) plan.num_tokens += piece.length;
      plan.num_examples += std::ssize(pieces);
    }
  }
  return plan;
}

PlanSummaryOptions linear_options() {
  PlanSummaryOptions options;
  options.flops = {.linear = 2.0, .quadratic = 0.0, .constant = 0.0};
  options.max_tokens_per_micro_batch = 16;
  options.row_multiple = 8;
  return options;
}

TEST(PlanSummary, AStepLastsAsLongAsTheSlowestRankOfEachMicroBatch) {
  PlanSummary survey(linear_options());
  survey.add(plan_of({{pieces_of({6, 2}), pieces_of({1})}, {pieces_of({4}), pieces_of({3})}}));
  // 16 tokens on 2 ranks; micro-batches take 8 and 3.
  EXPECT_DOUBLE_EQ(survey.cost_utilization(), 16.0 / (2 * 11));
  EXPECT_DOUBLE_EQ(survey.token_imbalance(), 22.0 / 16);
  EXPECT_DOUBLE_EQ(survey.step_flops(), 22.0);
  EXPECT_DOUBLE_EQ(survey.cost_bound(), 1.0);
  EXPECT_DOUBLE_EQ(survey.fill(), 16.0 / (4 * 16));
  EXPECT_DOUBLE_EQ(survey.padding_fraction(), 0.5);  // 4 micro-batches of 8 rows
  EXPECT_EQ(survey.num_micro_batches(), 2);
  EXPECT_EQ(survey.max_tokens_in_micro_batch(), 8);
  EXPECT_EQ(survey.max_rows_in_micro_batch(), 8);
}

TEST(PlanSummary, TheLongestExampleBoundsWhatAnyAssignmentReaches) {
  PlanSummary survey(linear_options());
  survey.add(plan_of({{pieces_of({10})}, {pieces_of({2})}, {pieces_of({})}, {pieces_of({})}}));
  EXPECT_DOUBLE_EQ(survey.cost_bound(), 3.0 / 10);
  EXPECT_DOUBLE_EQ(survey.cost_utilization(), 3.0 / 10);
}

TEST(PlanSummary, TakesMeansOverStepsAndSharesOfAllTokens) {
  PlanSummary survey(linear_options());
  survey.add(plan_of({{pieces_of({8})}, {pieces_of({8})}}));
  survey.add(plan_of({{pieces_of({8})}, {pieces_of({})}}));
  EXPECT_DOUBLE_EQ(survey.cost_utilization(), (1.0 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(survey.token_imbalance(), (1.0 + 2.0) / 2);
  EXPECT_DOUBLE_EQ(survey.padding_fraction(), 0.25);
  EXPECT_EQ(survey.num_examples(), 3);
  EXPECT_EQ(survey.num_steps(), 2);
}

TEST(PlanSummary, PadsTakeTimeButAreNoTokens) {
  PlanSummaryOptions options = linear_options();
  options.pad_to_longest = true;
  PlanSummary survey(options);
  survey.add(plan_of({{pieces_of({6, 2})}}));  // 12 rows, rounded up to 16
  EXPECT_DOUBLE_EQ(survey.cost_utilization(), 8.0 / 12);
  EXPECT_DOUBLE_EQ(survey.padding_fraction(), 0.5);
  EXPECT_DOUBLE_EQ(survey.step_flops(), 24.0);
  EXPECT_EQ(survey.max_tokens_in_micro_batch(), 8);
  EXPECT_EQ(survey.max_rows_in_micro_batch(), 16);
}

TEST(PlanSummary, CountsASplitExampleOnce) {
  PlanSummary survey(linear_options());
  survey.add(plan_of({{{{.example = 0, .begin = 0, .length = 4, .continues = true},
                        {.example = 0, .begin = 4, .length = 4, .continues = true},
                        {.example = 0, .begin = 8, .length = 1}}}}));
  EXPECT_EQ(survey.split_examples(), 1);
}

TEST(PlanSummary, AnAttentionTermRaisesTheCostOfLongExamples) {
  const CostModel cost = utilization_cost(100);
  EXPECT_DOUBLE_EQ(cost.of_example(600), 600.0 + 600.0);
}

TEST(PlanSummary, LoadsOfAStepAreSharesOfItsLength) {
  const StepLoads loads =
      step_loads(plan_of({{pieces_of({6}), pieces_of({1})}, {pieces_of({4}), pieces_of({3})}}),
                 linear_options());
  EXPECT_EQ(loads.ranks, (std::vector<double>{7.0, 7.0}));
  EXPECT_DOUBLE_EQ(loads.step, 9.0);
}

// A pair of 6 shared tokens, and answers of 2 and 4; and a pair that shares nothing.
StepPlan plan_of_pairs() {
  StepPlan plan = plan_of(
      {{{{.length = 6, .is_prefix = true},
         {.begin = 6, .length = 2, .after_prefix = true, .with_previous = true},
         {.example = 1, .begin = 6, .length = 4, .after_prefix = true, .with_previous = true}}},
       {{{.example = 2, .length = 5}, {.example = 3, .length = 3, .with_previous = true}}}});
  plan.num_groups = 2;
  return plan;
}

TEST(PlanSummary, CountsGroupsAndTheRowsThatSharingSaves) {
  PlanSummary survey(linear_options());
  survey.add(plan_of_pairs());
  EXPECT_EQ(survey.num_groups(), 2);
  EXPECT_EQ(survey.max_rows_in_group(), 12);
  EXPECT_DOUBLE_EQ(survey.saved_fraction(), 6.0 / (12 + 8 + 6));
}

// The second answer has a copy of the prefix. The rows are 12, and 4 pads.
TEST(PlanSummary, CountsKeysWithCopiesOfPrefixes) {
  PlanSummary survey(linear_options());
  survey.add(plan_of_pairs());
  EXPECT_EQ(survey.max_keys_in_micro_batch(), (6 + 2) + (6 + 4) + 4);
  PlanSummary plain(linear_options());
  plain.add(plan_of({{pieces_of({6, 2})}}));
  EXPECT_EQ(plain.max_keys_in_micro_batch(), 0);
}

TEST(PlanSummary, TheLargestGroupBoundsWhatAnyAssignmentReaches) {
  PlanSummaryOptions options = linear_options();
  options.cost = {.linear = 1, .quadratic = 0, .constant = 0};
  PlanSummary survey(options);
  survey.add(plan_of_pairs());
  EXPECT_DOUBLE_EQ(survey.cost_bound(), 10.0 / 12);
}

TEST(PlanSummary, PlainExamplesAreNoGroups) {
  PlanSummary survey(linear_options());
  survey.add(plan_of({{pieces_of({6, 2})}}));
  EXPECT_EQ(survey.num_groups(), 0);
  EXPECT_EQ(survey.max_rows_in_group(), 0);
  EXPECT_EQ(survey.saved_fraction(), 0);
}

}  // namespace
}  // namespace packtrain
