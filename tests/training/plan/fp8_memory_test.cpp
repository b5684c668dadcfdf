// Weights that are gathered as 8-bit codes in the memory plan, against what a rank allocates.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "models/decoder/decoder.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "tests/training/plan/lone_rank.h"
#include "tests/training/small_decoder.h"
#include "training/plan/memory_plan.h"
#include "training/plan/step_time_model.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"

namespace packtrain::fp8_memory_test {
namespace {

constexpr int kRanks = 2;

// Its layers are large against the rounding of shards to 4096 bytes.
DecoderConfig decoder_of(bool in_fp8) {
  DecoderConfig decoder = small_decoder();
  decoder.hidden_size = 256;
  decoder.head_dim = 64;
  decoder.intermediate_size = 1024;
  if (in_fp8) decoder.linear.products = Fp8Products::kAll;
  return decoder;
}

Config config_of(int zero_stage) {
  Config config;
  config.precision.reduce = Precision::kBFloat16;
  config.parallel.zero_stage = zero_stage;
  return config;
}

std::int64_t bytes_of(const Config& config, bool in_fp8, std::string_view name) {
  const MemoryPlan plan =
      MemoryPlanner(config, decoder_of(in_fp8), {DeviceKind::kCpu, kRanks}).plan({.num_rows = 128});
  for (const MemoryEntry& entry : plan.allocated) {
    if (entry.name == name) return entry.bytes;
  }
  return 0;
}

std::int64_t allocated_bytes(const Config& config, bool in_fp8) {
  const auto device = make_cpu_device({});
  const auto world = join_world();
  const DecoderConfig decoder = decoder_of(in_fp8);
  ShardedModel model(
      make_decoder(decoder, decoder_options(config, decoder)), *device,
      {std::make_unique<LoneRank>(*world, kRanks), std::make_unique<LoneRank>(*world, kRanks)},
      sharding_options(config));
  return model.parameters().communication_bytes();
}

TEST(Fp8Memory, IsWhatAModelAllocates) {
  for (const int stage : {2, 3}) {
    const Config config = config_of(stage);
    std::int64_t planned = 0;
    for (const char* name :
         {"weights", "gather slots", "codes sent", "gradient slots", "reduce output", "gradient"}) {
      planned += bytes_of(config, /*in_fp8=*/true, name);
    }
    const auto found = static_cast<double>(allocated_bytes(config, /*in_fp8=*/true));
    EXPECT_NEAR(static_cast<double>(planned), found, 0.01 * found) << "stage " << stage;
  }
}

TEST(Fp8Memory, OfGatheredLayersIsAboutHalfOfThatWithoutIt) {
  const Config stage2 = config_of(2);
  const Config stage3 = config_of(3);
  // Embedding, head and norms stay in bfloat16, and are the same in both differences.
  const auto layers = [&](bool in_fp8) {
    return static_cast<double>(bytes_of(stage2, in_fp8, "gather slots") -
                               bytes_of(stage3, in_fp8, "gather slots"));
  };
  EXPECT_NEAR(layers(true) / layers(false), 0.5, 0.05);
  EXPECT_GT(bytes_of(stage3, true, "codes sent"), 0);
  EXPECT_EQ(bytes_of(stage3, false, "codes sent"), 0);
}

TEST(Fp8Memory, OfFrozenWeightsThatAreStoredSoIsHalf) {
  Config config = config_of(3);
  config.model.frozen = {"layers.*"};
  const std::int64_t plain = bytes_of(config, /*in_fp8=*/false, "frozen weights");
  config.model.base = BaseStorage::kFp8;
  const std::int64_t stored = bytes_of(config, /*in_fp8=*/false, "frozen weights, fp8");
  EXPECT_NEAR(static_cast<double>(stored) / static_cast<double>(plain), 0.5, 0.1);
  EXPECT_GT(bytes_of(config, /*in_fp8=*/false, "decoded weight"), 0);
}

// Products of layers take 1 / 1.6 of the time. The head and attention stay.
TEST(Fp8Time, OfProductsIsLessOnGpus) {
  DecoderConfig decoder = small_decoder();
  decoder.hidden_size = 4096;
  decoder.intermediate_size = 14336;
  DeviceKind device = DeviceKind::kCuda;
  const auto seconds = [&](Fp8Products products) {
    decoder.linear.products = products;
    return StepTimeModel({}, decoder, {device, 1, 1}, {.num_tokens = 4096, .mean_length = 64})
        .seconds({Recompute::kNone, 3, 4096});
  };
  const double all = seconds(Fp8Products::kAll) / seconds(Fp8Products::kNone);
  const double two = seconds(Fp8Products::kForwardAndInput) / seconds(Fp8Products::kNone);
  EXPECT_GT(all, 1 / 1.6);
  EXPECT_LT(all, 0.75);
  EXPECT_NEAR((1 - two) / (1 - all), 2.0 / 3, 0.01);
  device = DeviceKind::kCpu;
  EXPECT_EQ(seconds(Fp8Products::kAll), seconds(Fp8Products::kNone));
}

}  // namespace
}  // namespace packtrain::fp8_memory_test
