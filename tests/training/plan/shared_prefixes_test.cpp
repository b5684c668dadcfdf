// What groups that share rows mean for plans: copies of keys in memory, and models that cannot.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "framework/core/error.h"
#include "samplers/statistics.h"
#include "tests/samplers/conversations.h"
#include "tests/samplers/group_options.h"
#include "tests/training/small_decoder.h"
#include "training/plan/memory_plan.h"
#include "training/plan/plan_source.h"
#include "training/plan/plan_summary.h"
#include "training/plan/shared_keys.h"

namespace packtrain::shared_prefixes_test {
namespace {

TEST(SharedPrefixes, TakeMemoryForCopiesOfKeys) {
  Config config;
  const DecoderConfig decoder = small_decoder();
  const auto bytes = [&](std::optional<std::int64_t> num_keys) {
    return MemoryPlanner(config, decoder, {DeviceKind::kCuda, 1})
        .plan({.num_rows = 4096, .num_keys = num_keys})
        .allocated_bytes();
  };
  EXPECT_EQ(bytes(std::nullopt), bytes(0)) << "next tokens share nothing";
  EXPECT_GE(bytes(3 * 4096), bytes(4096));
  config.objective.kind = ObjectiveKind::kDpo;
  EXPECT_EQ(bytes(std::nullopt), bytes(2 * 4096));
  config.batch.share_prefixes = false;
  EXPECT_EQ(bytes(std::nullopt), bytes(0));
}

Config config_of(ObjectiveKind kind) {
  Config config;
  config.objective.kind = kind;
  return config;
}

MemoryPlan plan_of(const Config& config, std::optional<std::int64_t> num_keys) {
  return MemoryPlanner(config, small_decoder(), {DeviceKind::kCuda, 1})
      .plan({.num_rows = 4096, .num_keys = num_keys});
}

TEST(SharedPrefixes, OfRolloutsHaveTheKeysOfTheGroupThatSharesMost) {
  // 40 tokens are rows once. Two examples have 87 tokens in 47 rows, and five have 230 in 70.
  const test::GroupStore store(GroupKind::kRollouts,
                               {test::pair(41, 2, 3),
                                {{test::member(41, 5, 100, GroupRole::kRollout),
                                  test::member(41, 5, 200, GroupRole::kRollout),
                                  test::member(41, 5, 300, GroupRole::kRollout),
                                  test::member(41, 5, 400, GroupRole::kRollout),
                                  test::member(41, 5, 500, GroupRole::kRollout)}}});
  EXPECT_DOUBLE_EQ(keys_of_row(store), 230.0 / (40 + 5 * 6));
  Config config = config_of(ObjectiveKind::kPolicy);
  set_keys_of_row(store, config);
  EXPECT_EQ(plan_of(config, std::nullopt).num_keys, key_bound(config, 4096).num_keys);
  EXPECT_GE(key_bound(config, 4096).num_keys, 4096 * 230 / 70);
  config.batch.share_prefixes = false;
  EXPECT_EQ(key_bound(config, 4096).num_keys, 0);
}

TEST(SharedPrefixes, OfAPlanNeverHaveMoreKeysThanTheBound) {
  std::int64_t num_above_pairs = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const test::GroupCase drawn = test::draw_group_case(seed);
    if (traits_of(drawn.options.strategy).pads_to_longest || !drawn.options.share_prefixes)
      continue;
    const bool are_pairs = drawn.store.info().groups->kind == GroupKind::kPairs;
    Config config = config_of(are_pairs ? ObjectiveKind::kDpo : ObjectiveKind::kPolicy);
    set_keys_of_row(drawn.store, config);
    const Planner planner(drawn.store, drawn.options);
    PlanSummaryOptions options;
    options.row_multiple = 1;
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      PlanSummary one(options);
      one.add(planner.plan(step));
      const std::int64_t bound = key_bound(config, one.max_rows_in_micro_batch()).num_keys;
      EXPECT_LE(one.max_keys_in_micro_batch(), bound) << "seed " << seed;
      num_above_pairs += one.max_keys_in_micro_batch() > 2 * one.max_rows_in_micro_batch() ? 1 : 0;
    }
  }
  EXPECT_GT(num_above_pairs, 0) << "groups of several answers have more than two keys a row";
}

TEST(SharedPrefixes, OfTurnsNeverHaveMoreKeysThanTheBound) {
  std::int64_t num_above_rows = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const test::GroupStore store(GroupKind::kTurns, test::draw_conversations(seed, 12, 60, 6));
    Config config;
    set_keys_of_row(store, config);
    PlanOptions options = test::group_options(60);
    options.max_tokens_per_micro_batch = 360;
    options.global_batch_size = 4;
    const Planner planner(store, options);
    PlanSummaryOptions counting;
    counting.row_multiple = 1;
    for (std::int64_t step = 0; step < planner.num_steps(1); ++step) {
      PlanSummary one(counting);
      one.add(planner.plan(step));
      const std::int64_t bound = key_bound(config, one.max_rows_in_micro_batch()).num_keys;
      EXPECT_LE(one.max_keys_in_micro_batch(), bound) << "seed " << seed;
      num_above_rows += one.max_keys_in_micro_batch() > one.max_rows_in_micro_batch() ? 1 : 0;
    }
    config.batch.share_prefixes = false;
    EXPECT_EQ(key_bound(config, 100).num_keys, 0);
  }
  EXPECT_GT(num_above_rows, 0);
}

TEST(SharedPrefixes, WithoutAStoreTheTableSaysWhatIsAssumed) {
  const auto table = [](const Config& config, std::optional<std::int64_t> num_keys) {
    return memory_table(plan_of(config, num_keys), 0);
  };
  const std::string rollouts = table(config_of(ObjectiveKind::kPolicy), std::nullopt);
  EXPECT_NE(rollouts.find("65536, not known without the store: 16 for each row"), std::string::npos)
      << rollouts;
  const std::string pairs = table(config_of(ObjectiveKind::kDpo), std::nullopt);
  EXPECT_NE(pairs.find("8192, 2 for each row, the most that pairs have"), std::string::npos);
  const std::string planned = table(config_of(ObjectiveKind::kDpo), 5000);
  EXPECT_NE(planned.find("5000, of the planned micro-batches"), std::string::npos);
  EXPECT_EQ(table(config_of(ObjectiveKind::kNextToken), std::nullopt).find("keys"),
            std::string::npos);
}

TEST(SharedPrefixes, AreRefusedWithRotaryPositionsThatDependOnTheLength) {
  Config config;
  config.objective.kind = ObjectiveKind::kDpo;
  DecoderConfig decoder = small_decoder();
  EXPECT_NO_THROW(plan_options(config, decoder, 1, 1024));
  decoder.rotary.scaling.kind = RotaryScaling::Kind::kDynamic;
  EXPECT_THROW(plan_options(config, decoder, 1, 1024), Error);
  config.batch.strategy = Strategy::kPadding;
  EXPECT_NO_THROW(plan_options(config, decoder, 1, 1024)) << "padded groups share nothing";
  config.batch.strategy = Strategy::kBalanced;
  config.batch.share_prefixes = false;
  EXPECT_NO_THROW(plan_options(config, decoder, 1, 1024));
  config.batch.share_prefixes = true;
  config.objective.kind = ObjectiveKind::kNextToken;
  EXPECT_NO_THROW(plan_options(config, decoder, 1, 1024));
}

}  // namespace
}  // namespace packtrain::shared_prefixes_test
