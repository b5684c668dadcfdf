// Tests the slots that `auto` finds: as many as fit into memory, and never fewer than a few.
#include "training/plan/gather_slots.h"
#include "framework/core/units.h"

#include <gtest/gtest.h>

#include "tests/training/small_decoder.h"
#include "training/plan/memory_plan.h"

namespace packtrain {
namespace {

constexpr std::int64_t kTokens = 1024;
constexpr int kLayers = 40;

DecoderConfig deep_decoder() {
  DecoderConfig decoder = small_decoder();
  decoder.num_layers = kLayers;
  return decoder;
}

Config config_with_limit(double bytes) {
  Config config;
  config.batch.max_tokens_per_micro_batch = kTokens;
  config.batch.global_batch_size = 1'000'000;
  config.memory.limit_gib = bytes / kGibibyte;
  return config;
}

// Every second layer has experts.
DecoderConfig mixed_decoder(std::int64_t width_of_expert) {
  DecoderConfig decoder = deep_decoder();
  decoder.experts = {
      .num_experts = 4, .experts_per_token = 2, .intermediate_size = width_of_expert};
  for (int layer = 0; layer < kLayers; ++layer) {
    decoder.layers.push_back({.experts = layer % 2 == 1});
  }
  return decoder;
}

int slots_of(const Config& config, int num_ranks, const DecoderConfig& decoder = deep_decoder()) {
  const AssumedDevice gpu = assume_device(config, decoder, on_one_host(num_ranks), 16.0);
  return assumed_gather_slots(config, decoder, kTokens, gpu);
}

double planned(int slots, const DecoderConfig& decoder = deep_decoder()) {
  Config config = config_with_limit(1e12);
  config.parallel.gather_slots = slots;
  const MemoryRanks ranks = assume_device(config, decoder, on_one_host(4), 16.0).ranks;
  return static_cast<double>(MemoryPlanner(config, decoder, ranks)
                                 .plan({.num_rows = kTokens, .several_micro_batches = true})
                                 .total());
}

TEST(GatherSlots, AreAsManyAsFitIntoMemory) {
  for (const int slots : {3, 4, 11, 39}) {
    const double available = (planned(slots) + planned(slots + 1)) / 2;
    EXPECT_EQ(slots_of(config_with_limit(available / 0.94), 4), slots);
  }
  EXPECT_EQ(slots_of(config_with_limit(1e12), 4), kLayers);
}

// With one slot more, layers of the other kind may meet in each: what all need need not grow.
TEST(GatherSlots, AreAsManyAsFitIntoMemoryWhereLayersDiffer) {
  for (const std::int64_t width : {80, 160}) {
    const DecoderConfig decoder = mixed_decoder(width);
    for (const int slots : {4, 10, 23, 38}) {
      const double available = planned(slots, decoder) + 1024;
      const int found = slots_of(config_with_limit(available / 0.94), 4, decoder);
      EXPECT_GE(found, slots) << width;
      EXPECT_LE(planned(found, decoder), available) << found << " slots, experts of " << width;
      for (int more = found + 1; more <= kLayers; ++more) {
        EXPECT_GT(planned(more, decoder), available) << more << " slots, experts of " << width;
      }
    }
  }
}

TEST(GatherSlots, AreAFewWhereEvenTheseHardlyFit) {
  EXPECT_EQ(slots_of(config_with_limit(planned(3)), 4), kMinGatherSlots);
}

TEST(GatherSlots, AreAFewWhereNothingIsGatheredOrMemoryIsTheHosts) {
  Config config = config_with_limit(1e12);
  EXPECT_EQ(slots_of(config, 1), kMinGatherSlots);
  config.parallel.zero_stage = 2;
  EXPECT_EQ(slots_of(config, 4), kMinGatherSlots);
  config.parallel.zero_stage = 3;
  config.parallel.backend = Backend::kMpi;
  const AssumedDevice host = assume_device(config, deep_decoder(), on_one_host(4));
  EXPECT_EQ(assumed_gather_slots(config, deep_decoder(), kTokens, host), kMinGatherSlots);
}

TEST(GatherSlots, AreWhatIsAskedFor) {
  Config config = config_with_limit(1.0);
  config.parallel.gather_slots = 7;
  EXPECT_EQ(slots_of(config, 4), 7);
}

}  // namespace
}  // namespace packtrain
