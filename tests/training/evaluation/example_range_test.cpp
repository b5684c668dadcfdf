// Plans of consecutive examples, one by one or with shared prefixes.
#include "training/evaluation/example_range.h"

#include <gtest/gtest.h>

#include <map>

#include "framework/core/random.h"
#include "tests/samplers/group_store.h"

namespace packtrain {
namespace {

constexpr std::int32_t kLongest = 40;

test::GroupStore rollouts(std::uint64_t seed) {
  return test::GroupStore(GroupKind::kRollouts,
                          test::draw_groups(seed, 12, kLongest, GroupKind::kRollouts, 6));
}

ExampleRange shared_range(const TokenStore& store, std::int64_t first, std::int64_t end) {
  return {first, end, std::make_shared<const GroupUnits>(store, /*share_prefixes=*/true)};
}

// Tokens of each example, with those of the prefix that it follows.
std::map<std::int64_t, std::int64_t> tokens_of(const StepPlan& plan) {
  std::map<std::int64_t, std::int64_t> tokens;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      std::int32_t prefix = 0;
      for (const Piece& piece : pieces) {
        if (piece.is_prefix) prefix = piece.length;
        if (piece.is_prefix) continue;
        EXPECT_FALSE(tokens.contains(piece.example)) << "once";
        EXPECT_EQ(piece.begin, piece.after_prefix ? prefix : 0);
        tokens[piece.example] = piece.begin + piece.length;
      }
    }
  }
  return tokens;
}

std::int64_t num_rows(const StepPlan& plan) {
  std::int64_t sum = 0;
  for (const auto& micro_batches : plan.ranks) {
    for (const MicroBatch& pieces : micro_batches) {
      for (const Piece& piece : pieces) sum += piece.length;
    }
  }
  return sum;
}

TEST(ExampleRange, HasEachExampleOnceWithAllOfItsTokens) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const test::GroupStore store = rollouts(seed);
    const CounterRandom random(seed, "ranges");
    const auto count = static_cast<std::uint64_t>(store.info().num_examples);
    const auto first = static_cast<std::int64_t>(random.below(0, count));
    const auto end = first + 1 + static_cast<std::int64_t>(random.below(1, count - first));
    for (const std::int64_t lowered : {0, 10}) {
      const StepPlan plan =
          plan_evaluation(store, shared_range(store, first, end), 100, 2, lowered);
      const auto found = tokens_of(plan);
      EXPECT_EQ(std::ssize(found), end - first) << "seed " << seed;
      for (const auto& [example, tokens] : found) {
        EXPECT_EQ(tokens, store.lengths()[static_cast<std::size_t>(example)]);
      }
      const StepPlan whole = plan_evaluation(store, ExampleRange{first, end}, 100, 2, lowered);
      EXPECT_LE(num_rows(plan), num_rows(whole));
      EXPECT_EQ(plan.num_loss_tokens, whole.num_loss_tokens);
      EXPECT_EQ(plan.loss_token_weight, whole.loss_token_weight);
    }
  }
}

// The prompt of 20 tokens is 19 rows once, and each answer has 1 + 10.
TEST(ExampleRange, HasAsManyAnswersAfterAPrefixAsTheBudgetHolds) {
  test::MemoryGroup group;
  for (int e = 0; e < 5; ++e) {
    group.members.push_back(test::member(20, 10, 100 * (e + 1), GroupRole::kRollout));
  }
  const test::GroupStore store(GroupKind::kRollouts, {group});
  const auto rows = [&](std::int64_t max_tokens, std::int64_t lowered = 0) {
    return num_rows(plan_evaluation(store, shared_range(store, 0, 5), max_tokens, 1, lowered));
  };
  EXPECT_EQ(rows(100), 19 + 5 * 11);
  EXPECT_EQ(rows(60), (19 + 3 * 11) + (19 + 2 * 11));
  EXPECT_EQ(rows(60, 45), 2 * (19 + 2 * 11) + 30);
  EXPECT_EQ(rows(40), 5 * 30) << "two answers do not fit";
}

TEST(ExampleRange, MayBeginAndEndInsideAGroup) {
  const test::GroupStore store(GroupKind::kPairs, {test::pair(8, 2, 3), test::pair(8, 4, 5)});
  EXPECT_EQ(num_rows(plan_evaluation(store, shared_range(store, 1, 4), 100, 1, 0)), 11 + 7 + 5 + 6);
  EXPECT_EQ(num_rows(plan_evaluation(store, ExampleRange{1, 4}, 100, 1, 0)), 11 + 12 + 13);
}

}  // namespace
}  // namespace packtrain
