// The budget that `auto` finds: all the memory there is, and never more than a step can use.
#include "training/plan/token_budget.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/units.h"
#include "tests/training/small_decoder.h"

namespace packtrain {
namespace {

Config auto_config() {
  Config config;
  config.batch.max_tokens_per_micro_batch.reset();
  config.batch.global_batch_size = 1'000'000;
  config.data.max_length = 512;
  return config;
}

MemoryRanks cpu_ranks(int num_ranks) {
  return {DeviceKind::kCpu, num_ranks};
}

MemoryLimit limit_of(std::int64_t bytes, const char* basis = "test") {
  return {bytes, bytes, basis};
}

std::int64_t planned(const Config& config, int num_ranks, std::int64_t rows, bool several = true) {
  return MemoryPlanner(config, small_decoder(), cpu_ranks(num_ranks))
      .plan({.num_rows = rows, .several_micro_batches = several})
      .total();
}

TEST(TokenBudget, IsTheLargestMultipleOfTheRowMultipleWithinTheLimit) {
  const Config config = auto_config();
  for (const int num_ranks : {1, 4}) {
    for (const std::int64_t megabytes : {20, 100, 1234}) {
      const MemoryLimit limit = limit_of(megabytes * 1'000'000);
      const std::int64_t tokens =
          largest_token_budget(config, small_decoder(), cpu_ranks(num_ranks), limit);
      EXPECT_EQ(tokens % 128, 0);
      EXPECT_LE(planned(config, num_ranks, tokens), limit.bytes);
      EXPECT_GT(planned(config, num_ranks, tokens + 128), limit.bytes);
    }
  }
}

TEST(TokenBudget, CountsTheSmallerGradientOfAStepInOneMicroBatch) {
  Config config = auto_config();
  config.batch.global_batch_size = 10;
  config.data.max_length = 512;
  const std::int64_t step = 5120;
  const std::int64_t whole = planned(config, 1, step, false);
  ASSERT_LT(whole, planned(config, 1, step));
  EXPECT_EQ(largest_token_budget(config, small_decoder(), cpu_ranks(1), limit_of(whole)), step);
  EXPECT_LT(largest_token_budget(config, small_decoder(), cpu_ranks(1), limit_of(whole - 1)), step);
}

TEST(TokenBudget, IsNoMoreThanAStepCanUse) {
  const MemoryLimit plenty = limit_of(std::int64_t{1} << 50);
  Config config = auto_config();
  config.batch.global_batch_size = 10;
  config.data.max_length = 500;
  EXPECT_EQ(largest_token_budget(config, small_decoder(), cpu_ranks(2), plenty),
            5120);  // 5000, rounded up
  config.batch.global_batch_size.reset();
  config.batch.global_batch_tokens = 8192;
  EXPECT_EQ(largest_token_budget(config, small_decoder(), cpu_ranks(2), plenty), 8192);
  config.batch.global_batch_tokens = 1;  // an example fits all the same
  EXPECT_EQ(largest_token_budget(config, small_decoder(), cpu_ranks(2), plenty), 512);
}

TEST(TokenBudget, LeavesAPackForEachRank) {
  const MemoryLimit plenty = limit_of(std::int64_t{1} << 50);
  Config config = auto_config();
  config.batch.strategy = Strategy::kMultipack;
  config.batch.global_batch_size.reset();
  config.batch.global_batch_tokens = 8192;
  EXPECT_EQ(largest_token_budget(config, small_decoder(), cpu_ranks(4), plenty), 2048);
}

TEST(TokenBudget, StaysWithinThirtyTwoBits) {
  const MemoryLimit plenty = limit_of(std::int64_t{1} << 60);
  Config config = auto_config();
  config.batch.global_batch_size = std::int64_t{1} << 40;
  config.data.max_length = 0x7fffff80;
  EXPECT_EQ(largest_token_budget(config, small_decoder(), cpu_ranks(1), plenty), 0x7fffff80);
  config.data.max_length = 0x7fffffff;  // rounded up, its rows could not be numbered
  EXPECT_THROW(largest_token_budget(config, small_decoder(), cpu_ranks(1), plenty), Error);
}

TEST(TokenBudget, TooLittleMemoryForOneExampleIsAnErrorWithTheFigures) {
  const Config config = auto_config();
  const MemoryLimit limit = limit_of(planned(config, 1, 512) - 1, "memory.limit_gib");
  try {
    largest_token_budget(config, small_decoder(), cpu_ranks(1), limit);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    for (const char* part : {"data.max_length = 512", "activations", "memory.limit_gib"}) {
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
  }
  const MemoryLimit enough = limit_of(limit.bytes + 1);
  EXPECT_EQ(largest_token_budget(config, small_decoder(), cpu_ranks(1), enough), 512);
}

TEST(TokenBudget, TakesTheGivenLimitAsItIs) {
  Config config = auto_config();
  config.memory.limit_gib = 0.25;
  const MemoryLimit limit =
      assumed_memory_limit(config.memory, assume_device(config, small_decoder(), on_one_host(8)));
  EXPECT_EQ(limit.bytes, static_cast<std::int64_t>(0.25 * kGibibyte));
  EXPECT_EQ(limit.basis, "memory.limit_gib");
  EXPECT_EQ(memory_limit(config.memory, *make_cpu_device({}), 8).bytes, limit.bytes);
}

TEST(TokenBudget, SharesTheHostAmongItsRanks) {
  Config config = auto_config();
  config.parallel.backend = Backend::kMpi;
  const auto limit_for = [&](int num_ranks) {
    return static_cast<double>(
        assumed_memory_limit(config.memory,
                             assume_device(config, small_decoder(), on_one_host(num_ranks)))
            .bytes);
  };
  const double one = limit_for(1);
  const double four = limit_for(4);
  EXPECT_NEAR(one, 4 * four, 0.2 * one);  // memory in use changes all the time
  EXPECT_GT(memory_limit(config.memory, *make_cpu_device({}), 1).bytes, 0);
}

TEST(TokenBudget, KnowsTheHostMemoryOfAssumedGpusWhereItIsGiven) {
  const Config config = auto_config();
  const RankHosts hosts = {8, 4, true};
  const auto limit_for = [&](std::optional<double> host_gib) {
    return assumed_memory_limit(config.memory,
                                assume_device(config, small_decoder(), hosts, 16.0, host_gib));
  };
  EXPECT_FALSE(limit_for(std::nullopt).host_bytes.has_value());
  EXPECT_EQ(limit_for(64.0).host_bytes, static_cast<std::int64_t>(0.8 * 16 * kGibibyte));
}

TEST(TokenBudget, LeavesAShareOfAGpuAsideAndCountsWhatLibrariesTake) {
  Config config = auto_config();
  const AssumedDevice gpu = assume_device(config, small_decoder(), on_one_host(1), 16.0);
  EXPECT_EQ(gpu.ranks.device, DeviceKind::kCuda);
  const MemoryLimit limit = assumed_memory_limit(config.memory, gpu);
  EXPECT_NEAR(static_cast<double>(limit.bytes), 0.96 * 16 * kGibibyte, 1.0);
  EXPECT_EQ(limit.with_reserve, static_cast<std::int64_t>(16 * kGibibyte));
  const TokenBudget on_gpu = assumed_token_budget(config, small_decoder(), gpu);
  EXPECT_LT(on_gpu.tokens,
            largest_token_budget(config, small_decoder(), cpu_ranks(1), limit_of(limit.bytes)));
}

TEST(TokenBudget, KeptFromAnotherDeviceMustFitThisOne) {
  Config config = auto_config();
  const auto device = make_cpu_device({});
  const auto world = join_world();
  const auto check = [&](std::int64_t tokens) {
    check_kept_budget(config, small_decoder(), tokens, "runs/a/checkpoints/step-7", *device,
                      *world);
  };
  config.memory.limit_gib = static_cast<double>(planned(config, 1, 4096)) / kGibibyte + 1e-6;
  EXPECT_NO_THROW(check(4096));
  try {
    check(8192);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    for (const char* part : {"step-7", "8192 tokens", "activations"}) {
      EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    }
    EXPECT_NE(error.advice().find("batch.max_tokens_per_micro_batch"), std::string::npos);
  }
}

TEST(TokenBudget, AsGivenHasNoLimit) {
  Config config = auto_config();
  config.batch.max_tokens_per_micro_batch = 777;
  const TokenBudget budget = assumed_token_budget(
      config, small_decoder(), assume_device(config, small_decoder(), on_one_host(2)));
  EXPECT_EQ(budget.tokens, 777);
  EXPECT_FALSE(budget.limit.has_value());
}

}  // namespace
}  // namespace packtrain
