// parallel.accumulate: local where it saves reductions and its memory fits, and nowhere else.
#include "training/plan/accumulation.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/core/units.h"
#include "tests/training/small_decoder.h"
#include "training/plan/memory_plan.h"

namespace packtrain::accumulation_test {
namespace {

constexpr std::int64_t kTokens = 1024;

// Steps of many more examples than a micro-batch holds.
AccumulationInput input_of(std::optional<Accumulate> given = {}) {
  AccumulationInput input;
  input.decoder = small_decoder();
  input.config.batch.max_tokens_per_micro_batch = input.max_tokens = kTokens;
  input.config.batch.global_batch_size = 1000;
  input.config.parallel.accumulate = given;
  input.config.parallel.gather_slots = 3;
  input.count = [] { return MicroBatchCounts{8, true}; };
  input.work = {.num_tokens = 8 * kTokens, .mean_length = 64};
  return input;
}

AssumedDevice gpus(int num_ranks, double gibibytes = 80) {
  return assume_device(input_of().config, small_decoder(), on_one_host(num_ranks), gibibytes);
}

AssumedDevice cpus(int num_ranks) {
  AssumedDevice device;
  device.ranks = {DeviceKind::kCpu, num_ranks, num_ranks};
  return device;
}

Accumulate accumulation(const AccumulationInput& input, const AssumedDevice& device) {
  return assumed_accumulation(input, device).accumulate;
}

std::int64_t planned(const AccumulationInput& input, Accumulate accumulate,
                     const MemoryRanks& ranks) {
  Config config = input.config;
  config.parallel.accumulate = accumulate;
  return MemoryPlanner(config, input.decoder, ranks)
      .plan({.num_rows = kTokens, .several_micro_batches = true})
      .total();
}

TEST(Accumulation, AutoIsLocalOnSeveralGpusThatHaveTheMemory) {
  EXPECT_EQ(accumulation(input_of(), gpus(4)), Accumulate::kLocal);
  EXPECT_EQ(accumulation(input_of(), cpus(4)), Accumulate::kShard);
}

TEST(Accumulation, AutoIsShardWhereTheLocalSumsDoNotFit) {
  AccumulationInput input = input_of();
  const MemoryRanks ranks = gpus(4).ranks;
  const auto needed = static_cast<double>(planned(input, Accumulate::kLocal, ranks));
  EXPECT_GT(planned(input, Accumulate::kLocal, ranks), planned(input, Accumulate::kShard, ranks));
  input.config.memory.limit_gib = (needed + 4096) / 0.94 / kGibibyte;
  EXPECT_EQ(accumulation(input, gpus(4)), Accumulate::kLocal);
  input.config.memory.limit_gib = (needed - 4096) / 0.94 / kGibibyte;
  EXPECT_EQ(accumulation(input, gpus(4)), Accumulate::kShard);
}

TEST(Accumulation, IsShardWhereNothingIsToWin) {
  for (const auto given : {std::optional<Accumulate>(), std::optional(Accumulate::kLocal)}) {
    EXPECT_EQ(accumulation(input_of(given), gpus(1)), Accumulate::kShard) << "one rank";
    AccumulationInput one_step = input_of(given);
    one_step.config.batch.global_batch_size = 1;
    one_step.config.data.max_length = kTokens;
    EXPECT_EQ(accumulation(one_step, gpus(4)), Accumulate::kShard) << "one micro-batch";
    AssumedDevice replicas = gpus(4);
    replicas.ranks.shard_size = 1;
    EXPECT_EQ(accumulation(input_of(given), replicas), Accumulate::kShard) << "replicas";
  }
  AccumulationInput rare = input_of();
  rare.count = [] { return MicroBatchCounts{1.2, false}; };
  EXPECT_EQ(accumulation(rare, gpus(4)), Accumulate::kShard);
}

TEST(Accumulation, ThatIsSetStays) {
  AccumulationInput input = input_of(Accumulate::kLocal);
  input.config.memory.limit_gib = 0.001;
  EXPECT_EQ(accumulation(input, gpus(4)), Accumulate::kLocal);
  EXPECT_EQ(accumulation(input, cpus(4)), Accumulate::kLocal);
  EXPECT_EQ(accumulation(input_of(Accumulate::kShard), gpus(4)), Accumulate::kShard);
}

TEST(Accumulation, PlansNoStepUnlessAutoMayBeLocal) {
  int num_counts = 0;
  const auto choose = [&](AccumulationInput input, const AssumedDevice& device) {
    input.count = [&] {
      ++num_counts;
      return MicroBatchCounts{8, true};
    };
    accumulation(input, device);
  };
  AccumulationInput kept = input_of();
  kept.kept = Accumulate::kShard;
  choose(input_of(Accumulate::kLocal), gpus(4));
  choose(input_of(Accumulate::kShard), gpus(4));
  choose(kept, gpus(4));
  choose(input_of(), gpus(1));
  choose(input_of(), cpus(4));
  EXPECT_EQ(num_counts, 0);
  choose(input_of(), gpus(4));
  EXPECT_EQ(num_counts, 1);
}

TEST(Accumulation, ByANumberOfExamplesHasSeveralMicroBatches) {
  AccumulationInput input = input_of(Accumulate::kLocal);
  input.config.batch.strategy = Strategy::kPaddingFree;
  input.config.batch.micro_batch_size = 2;
  input.config.data.max_length = 16;
  input.config.batch.global_batch_size = 16;  // 256 tokens at most
  EXPECT_EQ(accumulation(input, gpus(4)), Accumulate::kLocal);
  input.config.batch.global_batch_size = 8;
  EXPECT_EQ(accumulation(input, gpus(4)), Accumulate::kShard);
}

TEST(Accumulation, OfACheckpointIsKeptWhereItFits) {
  AccumulationInput input = input_of();
  input.count = [] { return MicroBatchCounts{1.2, false}; };
  input.kept = Accumulate::kLocal;
  EXPECT_EQ(accumulation(input, gpus(4)), Accumulate::kLocal);
  input.config.memory.limit_gib = 0.001;
  EXPECT_EQ(accumulation(input, gpus(4)), Accumulate::kShard);
  input = input_of();
  input.kept = Accumulate::kShard;
  EXPECT_EQ(accumulation(input, gpus(4)), Accumulate::kShard);
}

// What memory.fit chose for kShard leaves no memory for local sums. More recompute does.
AccumulationInput fitted_input(double tokens_of_micro_batch) {
  AccumulationInput input = input_of();
  input.config.parallel.gather_slots.reset();
  input.decoder.num_layers = 12;
  input.decoder.hidden_size = 512;
  input.decoder.intermediate_size = 1408;
  input.decoder.vocab_size = 64;
  input.decoder.head_dim = 128;
  input.work = {.num_tokens = 8 * tokens_of_micro_batch, .mean_length = 64};
  input.fitted = {Recompute::kNone, kMinGatherSlots};
  return input;
}

TEST(Accumulation, ThatNeedsOtherSettingsOfMemoryFitHasThem) {
  AccumulationInput input = fitted_input(64);
  Config shard = input.config;
  shard.parallel.accumulate = Accumulate::kShard;
  const MemoryRanks ranks = gpus(2).ranks;
  const std::int64_t needed = MemoryPlanner(shard, input.decoder, ranks)
                                  .plan({.num_rows = kTokens, .several_micro_batches = true})
                                  .total();
  input.config.memory.limit_gib = static_cast<double>(needed) / kGibibyte;
  const AccumulationChoice choice = assumed_accumulation(input, gpus(2));
  ASSERT_EQ(choice.accumulate, Accumulate::kLocal);
  EXPECT_NE(choice.fitted->recompute, RecomputeByLayer(Recompute::kNone));
  EXPECT_NE(choice.fit.find("memory.recompute="), std::string::npos) << choice.fit;
  Config local = input.config;
  local.parallel.accumulate = Accumulate::kLocal;
  local.memory.recompute = choice.fitted->recompute;
  local.parallel.gather_slots = choice.fitted->gather_slots;
  EXPECT_LE(MemoryPlanner(local, input.decoder, ranks)
                .plan({.num_rows = kTokens, .several_micro_batches = true})
                .total(),
            needed);
}

TEST(Accumulation, IsShardWhereLocalSumsWouldCostMoreProductsThanTheySave) {
  AccumulationInput input = fitted_input(1000);
  input.config.memory.recompute = Recompute::kFull;
  EXPECT_EQ(assumed_accumulation(input, gpus(2)).accumulate, Accumulate::kShard)
      << "the products of kShard, which has no recompute, are a quarter fewer";
}

StepPlan step_of(std::size_t num_micro_batches) {
  StepPlan plan;
  plan.ranks.assign(2, std::vector<MicroBatch>(num_micro_batches));
  return plan;
}

TEST(Accumulation, MostStepsAreAtLeastHalfOfThoseLookedAt) {
  const std::vector<std::size_t> sizes = {1, 3, 1, 2, 1, 1};
  const auto plan = [&](std::int64_t step) {
    return step_of(sizes.at(static_cast<std::size_t>(step)));
  };
  EXPECT_TRUE(count_micro_batches(plan, 0, 4).most_have_several);
  EXPECT_EQ(count_micro_batches(plan, 0, 4).mean, 7.0 / 4);
  EXPECT_FALSE(count_micro_batches(plan, 0, 6).most_have_several);
  EXPECT_TRUE(count_micro_batches(plan, 3, 5).most_have_several);
  EXPECT_FALSE(count_micro_batches(plan, 4, 6).most_have_several);
  EXPECT_FALSE(count_micro_batches(plan, 2, 2).most_have_several) << "no step";
  std::int64_t last = 0;
  const auto several = [&](std::int64_t step) {
    last = step;
    return step_of(2);
  };
  EXPECT_TRUE(count_micro_batches(several, 0, 100000).most_have_several);
  EXPECT_LT(last, 64) << "a plan of a long run takes as long as that of a short one";
}

}  // namespace
}  // namespace packtrain::accumulation_test
