// Tests prompts with answers to other prompts.
#include "training/steps/mismatched_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/core/error.h"
#include "tests/samplers/group_store.h"

namespace packtrain {
namespace {

using Ids = std::vector<std::int32_t>;
using test::GroupStore;

constexpr GroupRole kGood = GroupRole::kDesirable;

GroupStore three_answers() {
  return GroupStore(GroupKind::kJudged,
                    {{{{.example = {{1, 2, 10, 11}, {0, 0, 1, 1}}, .role = kGood}}},
                     {{{.example = {{3, 12}, {0, 1}}, .role = kGood}}},
                     {{{.example = {{4, 5, 6, 13, 14, 15}, {0, 0, 0, 1, 0, 1}}, .role = kGood}}}});
}

Ids ids_of(MismatchedStore& store, std::int64_t example) {
  store.hold({{.example = example}});
  const auto ids = store.input_ids(example);
  return {ids.begin(), ids.end()};
}

TEST(MismatchedAnswers, EachPromptHasTheAnswerOfTheNextExample) {
  const GroupStore store = three_answers();
  const std::vector<std::int64_t> order = {2, 0, 1};
  MismatchedStore mismatched(store, order, 100);
  EXPECT_EQ(ids_of(mismatched, 0), (Ids{4, 5, 6, 10, 11}));
  EXPECT_EQ(ids_of(mismatched, 1), (Ids{1, 2, 12}));
  EXPECT_EQ(ids_of(mismatched, 2), (Ids{3, 13, 14, 15}));
  EXPECT_EQ(mismatched.num_loss_tokens()[2], 2) << "as in the answer's own example";
  EXPECT_EQ(mismatched.groups(), nullptr);
}

TEST(MismatchedAnswers, AreCopiedOnlyWhereARankHoldsThem) {
  const GroupStore store = three_answers();
  const std::vector<std::int64_t> order = {2, 0, 1};
  MismatchedStore mismatched(store, order, 100);
  EXPECT_EQ(mismatched.lengths()[1], 3) << "every rank plans with all lengths";
  EXPECT_EQ(mismatched.info().num_loss_tokens, 2 + 1 + 2);
  EXPECT_THROW(mismatched.input_ids(1), Error);
  EXPECT_EQ(ids_of(mismatched, 1), (Ids{1, 2, 12}));
  EXPECT_EQ(mismatched.loss_mask(1).back(), 1);
  EXPECT_THROW(mismatched.input_ids(0), Error);
}

TEST(MismatchedAnswers, AreCutToTheLargestLengthButKeepAToken) {
  const GroupStore store = three_answers();
  const std::vector<std::int64_t> order = {0, 1, 2};
  MismatchedStore mismatched(store, order, 3);
  EXPECT_EQ(ids_of(mismatched, 0), (Ids{1, 2, 12}));
  EXPECT_EQ(ids_of(mismatched, 1), (Ids{3, 13, 14}));
  EXPECT_EQ(ids_of(mismatched, 2), (Ids{4, 5, 6, 10})) << "its prompt alone has three tokens";
}

TEST(MismatchedAnswers, AStepOfOneExampleHasNoneAndOneEmptyMicroBatch) {
  const GroupStore store = three_answers();
  const std::vector<std::int64_t> order = {1};
  const auto batches = mismatched_batches(
      store, order, {.max_length = 100, .max_tokens = 100, .num_ranks = 2, .rank = 1}, {});
  ASSERT_EQ(batches.size(), 1U);
  EXPECT_TRUE(batches.front().loss_index.empty());
}

StepPlan plan_of(const std::vector<std::vector<std::int64_t>>& ranks, std::int64_t step) {
  StepPlan plan;
  plan.step = step;
  for (const std::vector<std::int64_t>& examples : ranks) {
    MicroBatch pieces;
    for (const std::int64_t example : examples) pieces.push_back({.example = example, .length = 5});
    plan.ranks.push_back({pieces});
  }
  return plan;
}

TEST(MismatchedAnswers, TheOrderDependsOnSeedAndStepAndNotOnRanks) {
  const auto one = plan_of({{0, 1, 2, 3, 4, 5, 6, 7}}, 3);
  const auto order = shuffled_examples(one, 9);
  EXPECT_EQ(shuffled_examples(plan_of({{7, 5, 3, 1}, {0, 2, 4, 6}}, 3), 9), order);
  EXPECT_NE(shuffled_examples(plan_of({{0, 1, 2, 3, 4, 5, 6, 7}}, 4), 9), order);
  EXPECT_NE(shuffled_examples(one, 8), order);
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 8);
}

TEST(MismatchedAnswers, RanksHaveEquallyManyMicroBatchesWithinTheBudget) {
  const GroupStore store(GroupKind::kJudged, test::draw_groups(1, 40, 60, GroupKind::kJudged));
  std::vector<std::int64_t> examples(40);
  for (std::size_t e = 0; e < examples.size(); ++e) examples[e] = static_cast<std::int64_t>(e);
  std::int64_t num_examples = 0;
  std::set<std::size_t> sizes;
  for (int rank = 0; rank < 3; ++rank) {
    const auto batches = mismatched_batches(
        store, examples, {.max_length = 60, .max_tokens = 150, .num_ranks = 3, .rank = rank});
    sizes.insert(batches.size());
    for (const PackedBatch& batch : batches) {
      num_examples += std::ssize(batch.pieces);
      EXPECT_LE(batch.num_real_tokens, 150);
      EXPECT_FALSE(batch.has_groups);
    }
  }
  EXPECT_EQ(sizes.size(), 1);
  EXPECT_EQ(num_examples, 40);
}

TEST(MismatchedAnswers, ThePlanHasTheMicroBatchesOfEachRank) {
  const GroupStore store(GroupKind::kJudged, test::draw_groups(2, 30, 60, GroupKind::kJudged));
  std::vector<std::int64_t> examples(30);
  for (std::size_t e = 0; e < examples.size(); ++e) examples[e] = static_cast<std::int64_t>(e);
  MismatchedOptions options{.max_length = 60, .max_tokens = 150, .num_ranks = 2};
  const StepPlan plan = mismatched_plan(store, examples, options);
  for (options.rank = 0; options.rank < 2; ++options.rank) {
    const auto batches = mismatched_batches(store, examples, options);
    const auto& wanted = plan.ranks[static_cast<std::size_t>(options.rank)];
    ASSERT_EQ(batches.size(), wanted.size());
    for (std::size_t m = 0; m < wanted.size(); ++m) EXPECT_EQ(batches[m].pieces, wanted[m]);
  }
}

}  // namespace
}  // namespace packtrain
