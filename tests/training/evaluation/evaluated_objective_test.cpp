// Which loss an evaluation has, and whether examples share rows.
#include "training/evaluation/evaluated_objective.h"

#include <gtest/gtest.h>

#include "tests/samplers/group_store.h"

namespace packtrain {
namespace {

TEST(EvaluatedObjective, OfNextTokensSharesNoPrefix) {
  const EvaluatedObjective found = evaluated_objective(Config{});
  EXPECT_EQ(found.objective, nullptr);
  EXPECT_FALSE(found.share_prefixes) << "models that cannot share rows are evaluated";
}

TEST(EvaluatedObjective, OfNextTokensInGroupsOfSeveralSharesTheirPrefix) {
  Config config;
  const auto shares = [&](GroupKind kind) {
    const test::GroupStore store(kind, test::draw_groups(1, 4, 20, kind, 3));
    const EvaluatedObjective found = next_tokens_of(store, config);
    EXPECT_EQ(found.objective, nullptr);
    return found.share_prefixes;
  };
  EXPECT_TRUE(shares(GroupKind::kPairs));
  EXPECT_TRUE(shares(GroupKind::kRollouts));
  EXPECT_FALSE(shares(GroupKind::kJudged));
  EXPECT_FALSE(shares(GroupKind::kTurns)) << "they share different numbers of tokens";
  EXPECT_FALSE(next_tokens_of(test::MemoryStore({{{1, 2}, {0, 1}}}), config).share_prefixes);
  config.batch.share_prefixes = false;
  EXPECT_FALSE(shares(GroupKind::kRollouts));
}

}  // namespace
}  // namespace packtrain
