// The estimate against what a sharded model really allocates, and how it grows.
#include "framework/training/memory_estimate.h"

#include <gtest/gtest.h>

#include "framework/support/error.h"
#include "models/decoder.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {
namespace {

DecoderConfig small_decoder(bool tied) {
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
  config.tied_embeddings = tied;
  return config;
}

// Flat state and communication memory; the weights to be gathered are in both.
std::int64_t allocated_bytes(ShardedModel& model) {
  const FlatState& state = model.state();
  std::int64_t bytes = model.communication_bytes();
  for (const at::Tensor& part : {state.exp_avg, state.exp_avg_sq, model.gradient()}) {
    bytes += static_cast<std::int64_t>(part.nbytes());
  }
  if (!state.weight.is_same(state.master)) {
    bytes += static_cast<std::int64_t>(state.master.nbytes());
  }
  return bytes;
}

TEST(MemoryEstimate, KnowsWhatShardingAllocates) {
  const auto device = make_cpu_device({});
  const auto world = join_world();
  for (const bool tied : {false, true}) {
    for (const Precision compute : {Precision::kFloat32, Precision::kBFloat16}) {
      Config config;
      config.precision.compute = compute;
      ShardingOptions options;
      options.compute = compute == Precision::kFloat32 ? at::kFloat : at::kBFloat16;
      options.reduce = options.compute;
      options.moments = options.compute;
      config.precision.reduce = config.optimizer.moments = compute;
      const DecoderConfig decoder = small_decoder(tied);
      ShardedModel model(make_decoder(decoder, {}), *device,
                         {world->connect(Backend::kLocal), world->connect(Backend::kLocal)},
                         options);
      const MemoryEstimate estimate = estimate_memory(config, decoder, 1, 128, false);
      const auto allocated = static_cast<double>(allocated_bytes(model));
      // Allocations are rounded up.
      EXPECT_NEAR(static_cast<double>(estimate.state + estimate.slots), allocated,
                  0.01 * allocated);
    }
  }
}

TEST(MemoryEstimate, ShardingDividesStateAndStage2KeepsAllWeights) {
  Config config;
  const DecoderConfig decoder = small_decoder(true);
  const MemoryEstimate one = estimate_memory(config, decoder, 1, 128, false);
  const MemoryEstimate four = estimate_memory(config, decoder, 4, 128, false);
  EXPECT_NEAR(static_cast<double>(four.state), static_cast<double>(one.state) / 4,
              0.1 * static_cast<double>(one.state));
  EXPECT_GT(four.slots, one.slots);
  config.parallel.gather_slots = 1;
  const MemoryEstimate few_slots = estimate_memory(config, decoder, 4, 128, false);
  EXPECT_LT(few_slots.slots, four.slots);
  config.parallel.zero_stage = 2;
  EXPECT_GT(estimate_memory(config, decoder, 4, 128, false).slots, four.slots);
}

TEST(MemoryEstimate, FrozenWeightsCostNeitherGradientNorMoments) {
  Config config;
  const DecoderConfig decoder = small_decoder(false);
  const MemoryEstimate trained = estimate_memory(config, decoder, 1, 128, false);
  config.model.frozen = {"layers.*"};
  EXPECT_LT(estimate_memory(config, decoder, 1, 128, false).state, trained.state);
  config.model.frozen = {"no.such.parameter"};
  EXPECT_THROW(estimate_memory(config, decoder, 1, 128, false), Error);
}

TEST(MemoryEstimate, MomentsInBFloat16TakeHalf) {
  Config config;
  const DecoderConfig decoder = small_decoder(false);
  const std::int64_t wide = estimate_memory(config, decoder, 1, 128, false).state;
  config.optimizer.moments = Precision::kBFloat16;
  const std::int64_t master_copy_gradient_moments = 4 + 2 + 2 + 8;
  EXPECT_EQ(estimate_memory(config, decoder, 1, 128, false).state,
            wide / master_copy_gradient_moments * (master_copy_gradient_moments - 4));
}

TEST(MemoryEstimate, OneRankSumsSeveralMicroBatchesInFloat32) {
  Config config;
  const DecoderConfig decoder = small_decoder(false);
  const MemoryEstimate one = estimate_memory(config, decoder, 1, 128, false);
  const std::int64_t several = estimate_memory(config, decoder, 1, 128, true).state;
  EXPECT_EQ(several, one.state / (4 + 2 + 2 + 8) * (4 + 2 + 4 + 8));
  EXPECT_EQ(one.slots, 0);
  config.precision.reduce = Precision::kFloat32;
  EXPECT_EQ(estimate_memory(config, decoder, 1, 128, false).state, several);
  EXPECT_EQ(estimate_memory(config, decoder, 1, 128, true).state, several);
}

TEST(MemoryEstimate, RecomputationKeepsOneLayer) {
  Config config;
  const DecoderConfig decoder = small_decoder(true);
  const MemoryEstimate kept = estimate_memory(config, decoder, 1, 1024, false);
  EXPECT_EQ(estimate_memory(config, decoder, 1, 2048, false).activations, 2 * kept.activations);
  config.memory.recompute = Recompute::kFull;
  const MemoryEstimate recomputed = estimate_memory(config, decoder, 1, 1024, false);
  EXPECT_LT(recomputed.activations, kept.activations / 2);
  EXPECT_EQ(recomputed.state, kept.state);
}

}  // namespace
}  // namespace packtrain
