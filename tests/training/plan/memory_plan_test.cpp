// The plan against what a sharded model really allocates, and how it grows. On a GPU a whole step
// is held against it too (memory_gpu_test.cpp).
#include "training/plan/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>

#include "framework/core/error.h"
#include "models/decoder/decoder.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "tests/training/small_decoder.h"
#include "training/optimizers/adamw.h"
#include "training/setup/adapter_source.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"

namespace packtrain {
namespace {

// Flat state and communication memory; the weights to be gathered are in both.
std::int64_t allocated_bytes(ShardedModel& model) {
  const FlatState& state = model.parameters().state();
  std::int64_t bytes = model.parameters().communication_bytes();
  bytes += static_cast<std::int64_t>(model.gradient().nbytes());
  for (const OptimizerTensor& tensor : state.optimizer) {
    bytes += static_cast<std::int64_t>(tensor.values.nbytes());
  }
  const auto is_master = [&](const at::Tensor& weights) { return weights.is_same(state.master); };
  if (state.master.defined() && std::ranges::none_of(state.weights, is_master)) {
    bytes += static_cast<std::int64_t>(state.master.nbytes());
  }
  return bytes;
}

MemoryPlan plan_of(const Config& config, const DecoderConfig& decoder, int num_ranks,
                   std::int64_t num_rows = 128, bool several_micro_batches = false) {
  return MemoryPlanner(config, decoder, {DeviceKind::kCpu, num_ranks})
      .plan({.num_rows = num_rows, .several_micro_batches = several_micro_batches});
}

std::int64_t bytes_of(const MemoryPlan& plan, std::initializer_list<std::string> names) {
  std::int64_t bytes = 0;
  for (const MemoryEntry& entry : plan.allocated) {
    for (const std::string& name : names) bytes += entry.name == name ? entry.bytes : 0;
  }
  return bytes;
}

std::int64_t state_of(const MemoryPlan& plan) {
  return bytes_of(plan, {"master weights", "weights", "frozen weights", "moments", "gradient"});
}

std::int64_t slots_of(const MemoryPlan& plan) {
  return bytes_of(plan, {"gather slots", "gradient slots", "reduce output"});
}

TEST(MemoryPlan, HasScratchMemoryForReductionsByCopyEnginesAlone) {
  Config config;
  config.batch.max_tokens_per_micro_batch = 4096;
  const auto scratch = [&](std::optional<CollectivePath> path, DeviceKind device, int num_ranks) {
    config.parallel.reduce_path = path;
    const MemoryPlanner planner(config, small_decoder(/*tied=*/false), {device, num_ranks});
    const MemoryPlan plan = planner.plan({.num_rows = 128});
    return std::pair(bytes_of(plan, {"reduce scratch"}),
                     num_ranks * bytes_of(plan, {"reduce output"}));
  };
  const auto [bytes, wanted] = scratch(CollectivePath::kCopyEngine, DeviceKind::kCuda, 4);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(bytes, wanted);
  EXPECT_EQ(scratch(std::nullopt, DeviceKind::kCuda, 4).first, 0);
  EXPECT_EQ(scratch(CollectivePath::kCopyEngine, DeviceKind::kCpu, 4).first, 0);
  EXPECT_EQ(scratch(CollectivePath::kCopyEngine, DeviceKind::kCuda, 1).first, 0);
  config.batch.max_tokens_per_micro_batch = 2048;  // few: auto takes copy engines
  EXPECT_EQ(scratch(std::nullopt, DeviceKind::kCuda, 4).first, wanted);
  EXPECT_EQ(scratch(CollectivePath::kRing, DeviceKind::kCuda, 4).first, 0);
}

void expect_planned_state(const DecoderConfig& decoder, Precision compute,
                          Precision master = Precision::kFloat32) {
  const auto device = make_cpu_device({});
  const auto world = join_world();
  Config config;
  config.precision.compute = compute;
  config.precision.master = master;
  ShardingOptions options;
  options.reduce = scalar_type(compute);
  options.optimizer_state = adamw_state(options.reduce);
  config.precision.reduce = compute;
  config.optimizer.moments = moments_of(compute);
  ShardedModel model(make_decoder(decoder, decoder_options(config, decoder)), *device,
                     {world->connect(Backend::kLocal), world->connect(Backend::kLocal)}, options);
  const MemoryPlan plan = plan_of(config, decoder, 1);
  const auto allocated = static_cast<double>(allocated_bytes(model));
  // Allocations are rounded up.
  EXPECT_NEAR(static_cast<double>(state_of(plan) + slots_of(plan)), allocated, 0.01 * allocated);
}

TEST(MemoryPlan, KnowsWhatShardingAllocates) {
  for (const bool tied : {false, true}) {
    for (const Precision compute : {Precision::kFloat32, Precision::kBFloat16}) {
      expect_planned_state(small_decoder(tied), compute);
    }
    expect_planned_state(small_decoder(tied), Precision::kBFloat16, Precision::kBFloat16);
  }
}

TEST(MemoryPlan, KnowsWhatMagnitudesOfRowsAllocate) {
  LoraOptions adapter;
  adapter.use_dora = true;
  for (const Precision compute : {Precision::kFloat32, Precision::kBFloat16}) {
    expect_planned_state(with_adapters(small_decoder(), {&adapter, 1}), compute);
  }
}

TEST(MemoryPlan, ShardingDividesStateAndStage2KeepsAllWeights) {
  Config config;
  const DecoderConfig decoder = small_decoder(true);
  const auto one = static_cast<double>(state_of(plan_of(config, decoder, 1)));
  const MemoryPlan four = plan_of(config, decoder, 4);
  EXPECT_NEAR(static_cast<double>(state_of(four)), one / 4, 0.1 * one);
  EXPECT_EQ(slots_of(plan_of(config, decoder, 1)), 0);
  EXPECT_GT(slots_of(four), 0);
  config.parallel.gather_slots = 1;
  EXPECT_LT(slots_of(plan_of(config, decoder, 4)), slots_of(four));
  config.parallel.zero_stage = 2;
  EXPECT_GT(slots_of(plan_of(config, decoder, 4)), slots_of(four));
}

TEST(MemoryPlan, ReplicasOfAShardGroupTakeWhatTheGroupAloneDoes) {
  const Config config;
  const DecoderConfig decoder = small_decoder(false);
  const auto total = [&](const MemoryRanks& ranks) {
    return MemoryPlanner(config, decoder, ranks).plan({.num_rows = 128}).total();
  };
  EXPECT_EQ(total({DeviceKind::kCpu, 4, 2}), total({DeviceKind::kCpu, 2}));
  EXPECT_EQ(total({DeviceKind::kCpu, 4, 1}), total({DeviceKind::kCpu, 1}));
  EXPECT_LT(total({DeviceKind::kCpu, 4}), total({DeviceKind::kCpu, 4, 2}));
}

TEST(MemoryPlan, EmbeddingAndHeadShareSlotsWhereTheyAreNotResident) {
  Config config;
  const DecoderConfig decoder = small_decoder(false);
  const std::int64_t resident = slots_of(plan_of(config, decoder, 4));
  config.parallel.resident_embeddings = false;
  // One slot less for weights and one less for gradients, both bfloat16, of the embedding's size.
  const std::int64_t embedding = decoder.vocab_size * decoder.hidden_size * 2;
  const std::int64_t saved = resident - slots_of(plan_of(config, decoder, 4));
  EXPECT_NEAR(static_cast<double>(saved), static_cast<double>(2 * embedding),
              0.2 * static_cast<double>(embedding));
}

TEST(MemoryPlan, FrozenWeightsCostNeitherGradientNorMoments) {
  Config config;
  const DecoderConfig decoder = small_decoder(false);
  const std::int64_t trained = state_of(plan_of(config, decoder, 1));
  config.model.frozen = {"layers.*"};
  const MemoryPlan frozen = plan_of(config, decoder, 1);
  EXPECT_LT(state_of(frozen), trained);
  EXPECT_GT(bytes_of(frozen, {"frozen weights"}), 0);
  config.model.frozen = {"no.such.parameter"};
  EXPECT_THROW(plan_of(config, decoder, 1), Error);
}

TEST(MemoryPlan, FrozenWeightsInNf4AreNamedAndHaveADecodedWeight) {
  Config config;
  DecoderConfig decoder = small_decoder(false);
  decoder.hidden_size = 512;  // a layer is some hundred groups
  decoder.head_dim = 128;
  config.model.frozen = {"layers.*"};
  const std::int64_t plain = bytes_of(plan_of(config, decoder, 1), {"frozen weights"});
  config.model.base = BaseStorage::kNf4;
  const MemoryPlan encoded = plan_of(config, decoder, 1);
  const std::int64_t bytes = bytes_of(encoded, {"frozen weights, nf4"});
  EXPECT_GT(bytes, plain / 4);
  EXPECT_LT(bytes, plain * 2 / 5);  // with what rounds shards up to whole pages of groups
  EXPECT_LT(bytes_of(encoded, {"frozen weights"}), plain / 50);  // norms
  EXPECT_EQ(bytes_of(encoded, {"decoded weight"}), 2 * 512 * (512 + 2 * 256));
  EXPECT_LT(slots_of(plan_of(config, decoder, 2)), plain);
}

TEST(MemoryPlan, MomentsInBFloat16TakeHalf) {
  Config config;
  const DecoderConfig decoder = small_decoder(false);
  const std::int64_t wide = bytes_of(plan_of(config, decoder, 1), {"moments"});
  config.optimizer.moments = Moments::kBFloat16;
  EXPECT_EQ(2 * bytes_of(plan_of(config, decoder, 1), {"moments"}), wide);
}

TEST(MemoryPlan, OneRankSumsSeveralMicroBatchesInFloat32) {
  Config config;
  const DecoderConfig decoder = small_decoder(false);
  const auto gradient = [&](bool several) {
    return bytes_of(plan_of(config, decoder, 1, 128, several), {"gradient"});
  };
  EXPECT_EQ(gradient(true), 2 * gradient(false));
  config.precision.reduce = Precision::kFloat32;
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(MemoryPlan, RecomputationKeepsOneLayer) {
  Config config;
  const DecoderConfig decoder = small_decoder(true);
  const MemoryPlan kept = plan_of(config, decoder, 1, 1024);
  config.memory.recompute = Recompute::kFull;
  const MemoryPlan recomputed = plan_of(config, decoder, 1, 1024);
  EXPECT_LT(bytes_of(recomputed, {"activations"}), bytes_of(kept, {"activations"}) / 2);
  EXPECT_EQ(state_of(recomputed), state_of(kept));
}

TEST(MemoryPlan, SharesTheMomentThatNeedsMost) {
  const Config config;
  DecoderConfig decoder = small_decoder(true);
  decoder.vocab_size = 32768;
  EXPECT_EQ(plan_of(config, decoder, 1, 8192).moment, "loss");
  decoder.vocab_size = 256;
  decoder.intermediate_size = 4096;
  EXPECT_EQ(plan_of(config, decoder, 1, 8192).moment, "MLP backward");
  decoder.intermediate_size = 16;
  decoder.num_heads = 64;
  EXPECT_EQ(plan_of(config, decoder, 1, 8192).moment, "attention backward");
}

TEST(MemoryPlan, OnlyAGpuHasAContextAndItIsWhatTheDeviceSaysWhereItWasAsked) {
  const Config config;
  const DecoderConfig decoder = small_decoder(true);
  EXPECT_EQ(plan_of(config, decoder, 1).outside_bytes(), 0);
  const auto outside = [&](const MemoryRanks& ranks) {
    return MemoryPlanner(config, decoder, ranks).plan({.num_rows = 128}).outside_bytes();
  };
  const std::int64_t assumed = outside({DeviceKind::kCuda, 1});
  EXPECT_GT(assumed, 0);
  const std::int64_t taken = std::int64_t{7} << 30;
  const std::int64_t more = std::int64_t{1} << 30;
  EXPECT_EQ(
      outside({DeviceKind::kCuda, 1, 1, taken + more}) - outside({DeviceKind::kCuda, 1, 1, taken}),
      more);
}

TEST(MemoryPlan, TableNamesEveryPurposeAndWhatStaysFree) {
  const Config config;
  const MemoryPlan plan =
      MemoryPlanner(config, small_decoder(true), {DeviceKind::kCuda, 2}).plan({.num_rows = 128});
  const std::string table = memory_table(plan, std::int64_t{80} << 30);
  for (const MemoryEntry& entry : plan.allocated) {
    EXPECT_NE(table.find(entry.name), std::string::npos) << entry.name;
  }
  for (const char* part : {"context", "together", "free", "80.00 GiB", "most in the"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
  EXPECT_EQ(memory_table(plan, 0).find("free"), std::string::npos);
  EXPECT_EQ(table.find("MiB"), std::string::npos);
}

TEST(MemoryPlan, OneThatTheDeviceCannotHoldIsWarnedOf) {
  MemoryPlan plan;
  plan.allocated = {{"weights", std::int64_t{90} << 30, ""}};
  plan.shared_bytes = plan.allocated_bytes();
  const MemoryRanks ranks{DeviceKind::kCuda, 8, 8};
  EXPECT_EQ(memory_shortage(plan, ranks, 0, ""), "");
  EXPECT_EQ(memory_shortage(plan, ranks, std::int64_t{90} << 30, ""), "");
  const std::string told = memory_shortage(plan, ranks, std::int64_t{80} << 30, "this");
  EXPECT_NE(told.find("What fits: this"), std::string::npos) << told;
  EXPECT_NE(told.find("planned 90.00 GiB, the device has 80.00"), std::string::npos) << told;
  EXPECT_NE(told.find("batch.max_tokens_per_micro_batch"), std::string::npos) << told;
}

TEST(MemoryPlan, AdviceNamesWhatWouldLetMoreRanksShare) {
  MemoryPlan plan;
  plan.allocated = {{"weights", 90, ""}, {"activations", 30, ""}};
  plan.shared_bytes = 90;
  const MemoryRanks whole{DeviceKind::kCuda, 16, 16};
  const MemoryRanks groups{DeviceKind::kCuda, 16, 8};
  EXPECT_EQ(sharing_advice(plan, whole, 40), "use more ranks");
  EXPECT_EQ(sharing_advice(plan, groups, 40),
            "raise parallel.shard_size (8 of 16 ranks share one copy of the state)");
  EXPECT_EQ(sharing_advice(plan, whole, 30), "");  // activations alone are too many
  EXPECT_EQ(sharing_advice(plan, groups, 30), "");
}

TEST(MemoryPlan, TableOfASmallModelIsInMebibytes) {
  const MemoryPlan plan =
      MemoryPlanner(Config{}, small_decoder(true), {DeviceKind::kCpu, 2}).plan({.num_rows = 128});
  const std::string table = memory_table(plan, 0);
  EXPECT_NE(table.find(" MiB  most in the"), std::string::npos) << table;
  EXPECT_EQ(table.find("GiB"), std::string::npos) << table;
}

}  // namespace
}  // namespace packtrain
