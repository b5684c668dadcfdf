// Plans of conversations whose turns are examples. The prompt of the last turn is computed once.
// Each earlier turn sees the part of it that it follows.
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <span>
#include <vector>

#include "framework/data/store_groups.h"
#include "samplers/planner.h"
#include "tests/samplers/conversations.h"
#include "tests/samplers/group_options.h"
#include "tests/samplers/lengths.h"

namespace packtrain::turn_plan_test {
namespace {

using test::draw_conversations;
using test::GroupStore;
using test::turn;

constexpr std::int32_t kLongest = 60;
constexpr std::uint64_t kNumDraws = 60;

PlanOptions options_of(std::uint64_t seed) {
  constexpr std::array kStrategies = {Strategy::kPadding, Strategy::kPaddingFree,
                                      Strategy::kBalanced, Strategy::kMultipack};
  PlanOptions options = test::group_options(kLongest);
  options.strategy = kStrategies[seed % kStrategies.size()];
  options.max_tokens_per_micro_batch = 6 * kLongest;
  options.global_batch_size = 7;
  options.num_ranks = 1 + static_cast<int>(seed % 3);
  options.seed = seed;
  if (traits_of(options.strategy).counts_tokens()) {
    options.global_batch_size = 0;
    options.global_batch_tokens = 2 * options.max_tokens_per_micro_batch;
  }
  return options;
}

// Prompts of 3, 5 and 8 tokens, and answers of 2, 1 and 4.
TEST(TurnPlan, EachTurnSeesThePartOfTheLastPromptThatItFollows) {
  const GroupStore store(GroupKind::kTurns,
                         {{{turn(3, 0, 2, 100), turn(5, 0, 1, 200), turn(8, 0, 4, 300)}}});
  const StepPlan plan = Planner(store, test::group_options(20)).plan(0);
  const std::vector<Piece> wanted = {
      {.example = 2, .length = 4, .is_prefix = true},
      {.example = 0, .begin = 2, .length = 3, .after_prefix = true, .with_previous = true},
      {.example = 1, .begin = 4, .length = 2, .after_prefix = true, .with_previous = true},
      {.example = 2, .begin = 4, .length = 8, .after_prefix = true, .with_previous = true}};
  EXPECT_EQ(plan.ranks[0][0], wanted);
  std::vector<RowRange> seen;
  for_each_segment(plan.ranks[0][0], [&](std::span<const Piece>, const AttentionSegment& segment) {
    for (const RowRange& range : segment.prefix) seen.push_back(range);
  });
  EXPECT_EQ(seen, (std::vector<RowRange>{{0, 2}, {0, 4}, {0, 4}}));
  EXPECT_EQ(plan.num_tokens, 4 + 3 + 2 + 8);
}

// The second turn follows thoughts that the last one does not have.
TEST(TurnPlan, ATurnSharesNothingAfterWhatItAloneFollows) {
  const GroupStore store(GroupKind::kTurns, {{{turn(4, 3, 2, 100), turn(9, 0, 1, 300)}}});
  EXPECT_EQ(shared_with_last(store, store.groups()->group(0)), (std::vector<std::int64_t>{4, 4}));
}

TEST(TurnPlan, WhatATurnLearnsIsNeverShared) {
  test::DrawnMember early = turn(4, 0, 2, 100);
  early.example.loss_mask[2] = 1;
  test::DrawnMember last = turn(9, 0, 1, 300);
  const GroupStore first(GroupKind::kTurns, {{{early, last}}});
  EXPECT_EQ(shared_with_last(first, first.groups()->group(0)), (std::vector<std::int64_t>{2, 2}));
  last.example.loss_mask[1] = 1;
  const GroupStore second(GroupKind::kTurns, {{{turn(4, 0, 2, 100), last}}});
  EXPECT_EQ(shared_with_last(second, second.groups()->group(0)), (std::vector<std::int64_t>{1, 1}));
}

TEST(TurnPlan, EveryTokenOfATurnIsInItsPieceOrInTheRowsThatItSees) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const GroupStore store(GroupKind::kTurns, draw_conversations(seed, 30, kLongest, 6));
    const Planner planner(store, options_of(seed));
    std::int64_t num_turns = 0;
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      const StepPlan plan = planner.plan(step);
      std::int64_t num_rows = 0;
      for (const auto& rank : plan.ranks) {
        for (const MicroBatch& pieces : rank) {
          const auto groups = test::groups_in(store, pieces);
          ASSERT_LE(test::rows_in(pieces, planner.options().strategy),
                    planner.options().max_tokens_per_micro_batch);
          Piece prefix;
          for (const Piece& piece : pieces) {
            num_rows += piece.length;
            if (piece.is_prefix) prefix = piece;
            if (piece.is_prefix) continue;
            ++num_turns;
            const auto ids = store.input_ids(piece.example);
            ASSERT_EQ(piece.begin + piece.length, std::ssize(ids));
            ASSERT_EQ(piece.after_prefix, piece.begin > 0);
            if (!piece.after_prefix) continue;
            const auto shared = store.input_ids(prefix.example).first(prefix.length);
            ASSERT_LE(piece.begin, prefix.length);
            for (std::int32_t t = 0; t < piece.begin; ++t) ASSERT_EQ(ids[t], shared[t]);
          }
        }
      }
      ASSERT_EQ(plan.num_tokens, num_rows) << "seed " << seed;
    }
    ASSERT_EQ(num_turns, store.info().num_examples) << "seed " << seed;
  }
}

TEST(TurnPlan, StepsAndTheirCountsOfLabelsDoNotDependOnSharing) {
  for (std::uint64_t seed = 0; seed < kNumDraws; ++seed) {
    const GroupStore store(GroupKind::kTurns, draw_conversations(seed, 30, kLongest, 6));
    PlanOptions options = options_of(seed);
    if (options.global_batch_size == 0) continue;  // steps of tokens count rows
    const StepPlan shared = Planner(store, options).plan(1);
    options.share_prefixes = false;
    const StepPlan whole = Planner(store, options).plan(1);
    EXPECT_EQ(shared.num_examples, whole.num_examples);
    EXPECT_EQ(shared.num_groups, whole.num_groups);
    EXPECT_EQ(shared.loss_token_weight, whole.loss_token_weight);
    EXPECT_EQ(shared.example_weight, whole.example_weight);
    EXPECT_EQ(shared.example_weight, static_cast<double>(shared.num_examples));
    EXPECT_EQ(shared.loss_token_weight, static_cast<double>(shared.num_loss_tokens));
  }
}

}  // namespace
}  // namespace packtrain::turn_plan_test
