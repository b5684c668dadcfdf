// The budget that `auto` finds: all the memory there is, and never more than a step can use.
#include "framework/training/token_budget.h"

#include <gtest/gtest.h>

#include "framework/support/error.h"
#include "framework/training/memory_estimate.h"

namespace packtrain {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

DecoderConfig small_decoder() {
  DecoderConfig config;
  config.family = "llama";
  config.vocab_size = 512;
  config.hidden_size = 64;
  config.intermediate_size = 160;
  config.num_layers = 4;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 16;
  config.max_positions = 512;
  return config;
}

Config auto_config() {
  Config config;
  config.batch.max_tokens_per_micro_batch.reset();
  config.batch.global_batch_size = 1'000'000;
  config.data.max_length = 512;
  return config;
}

std::int64_t estimate(const Config& config, int num_ranks, std::int64_t rows) {
  return estimate_memory(config, small_decoder(), num_ranks, rows, true).total();
}

TEST(TokenBudget, IsTheLargestMultipleOfTheRowMultipleWithinTheLimit) {
  const Config config = auto_config();
  for (const int num_ranks : {1, 4}) {
    for (const std::int64_t megabytes : {20, 100, 1234}) {
      const MemoryLimit limit{megabytes * 1'000'000, "test"};
      const std::int64_t tokens = largest_token_budget(config, small_decoder(), num_ranks, limit);
      EXPECT_EQ(tokens % 128, 0);
      EXPECT_LE(estimate(config, num_ranks, tokens), limit.bytes);
      EXPECT_GT(estimate(config, num_ranks, tokens + 128), limit.bytes);
    }
  }
}

TEST(TokenBudget, CountsTheSmallerGradientOfAStepInOneMicroBatch) {
  Config config = auto_config();
  config.batch.global_batch_size = 10;
  config.data.max_length = 512;
  const std::int64_t step = 5120;
  const std::int64_t whole = estimate_memory(config, small_decoder(), 1, step, false).total();
  ASSERT_LT(whole, estimate(config, 1, step));
  EXPECT_EQ(largest_token_budget(config, small_decoder(), 1, {whole, "test"}), step);
  EXPECT_LT(largest_token_budget(config, small_decoder(), 1, {whole - 1, "test"}), step);
}

TEST(TokenBudget, IsNoMoreThanAStepCanUse) {
  const MemoryLimit plenty{std::int64_t{1} << 50, "test"};
  Config config = auto_config();
  config.batch.global_batch_size = 10;
  config.data.max_length = 500;
  EXPECT_EQ(largest_token_budget(config, small_decoder(), 2, plenty), 5120);  // 5000, rounded up
  config.batch.global_batch_size.reset();
  config.batch.global_batch_tokens = 8192;
  EXPECT_EQ(largest_token_budget(config, small_decoder(), 2, plenty), 8192);
  config.batch.global_batch_tokens = 1;  // an example fits all the same
  EXPECT_EQ(largest_token_budget(config, small_decoder(), 2, plenty), 512);
}

TEST(TokenBudget, LeavesAPackForEachRank) {
  const MemoryLimit plenty{std::int64_t{1} << 50, "test"};
  Config config = auto_config();
  config.batch.strategy = Strategy::kMultipack;
  config.batch.global_batch_size.reset();
  config.batch.global_batch_tokens = 8192;
  EXPECT_EQ(largest_token_budget(config, small_decoder(), 4, plenty), 2048);
}

TEST(TokenBudget, StaysWithinThirtyTwoBits) {
  const MemoryLimit plenty{std::int64_t{1} << 60, "test"};
  Config config = auto_config();
  config.batch.global_batch_size = std::int64_t{1} << 40;
  config.data.max_length = 0x7fffff80;
  EXPECT_EQ(largest_token_budget(config, small_decoder(), 1, plenty), 0x7fffff80);
  config.data.max_length = 0x7fffffff;  // rounded up, its rows could not be numbered
  EXPECT_THROW(largest_token_budget(config, small_decoder(), 1, plenty), Error);
}

TEST(TokenBudget, WithoutRoomForOneExampleIsAnErrorThatTellsTheFigures) {
  const Config config = auto_config();
  const MemoryLimit limit{estimate(config, 1, 512) - 1, "memory.limit_gib"};
  try {
    largest_token_budget(config, small_decoder(), 1, limit);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    for (const char* part : {"data.max_length = 512", "activations", "memory.limit_gib"}) {
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }
  const MemoryLimit enough{limit.bytes + 1, "memory.limit_gib"};
  EXPECT_EQ(largest_token_budget(config, small_decoder(), 1, enough), 512);
}

TEST(TokenBudget, TakesTheGivenLimitAsItIs) {
  Config config = auto_config();
  config.memory.limit_gib = 0.25;
  const MemoryLimit limit = assumed_memory_limit(config, 8);
  EXPECT_EQ(limit.bytes, static_cast<std::int64_t>(0.25 * kGibibyte));
  EXPECT_EQ(limit.basis, "memory.limit_gib");
  EXPECT_EQ(memory_limit(config.memory, *make_cpu_device({}), 8).bytes, limit.bytes);
}

TEST(TokenBudget, SharesTheHostAmongItsRanks) {
  Config config = auto_config();
  config.parallel.backend = BackendKind::kMpi;
  const auto one = static_cast<double>(assumed_memory_limit(config, 1).bytes);
  const auto four = static_cast<double>(assumed_memory_limit(config, 4).bytes);
  EXPECT_NEAR(one, 4 * four, 0.2 * one);  // memory in use changes all the time
  EXPECT_GT(memory_limit(config.memory, *make_cpu_device({}), 1).bytes, 0);
}

TEST(TokenBudget, AsGivenHasNoLimit) {
  Config config = auto_config();
  config.batch.max_tokens_per_micro_batch = 777;
  const TokenBudget budget = assumed_token_budget(config, small_decoder(), 2);
  EXPECT_EQ(budget.tokens, 777);
  EXPECT_FALSE(budget.limit.has_value());
}

}  // namespace
}  // namespace packtrain
