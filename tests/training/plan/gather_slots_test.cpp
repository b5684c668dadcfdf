// Slots that `auto` finds: what the memory plan leaves room for, and never fewer than a few.
#include "framework/training/plan/gather_slots.h"

#include <gtest/gtest.h>

#include "framework/training/plan/memory_plan.h"
#include "tests/training/small_decoder.h"

namespace packtrain {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
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

int slots_of(const Config& config, int num_ranks) {
  const AssumedDevice gpu = assume_device(config, num_ranks, 16.0);
  return assumed_gather_slots(config, deep_decoder(), kTokens, gpu);
}

double planned(int slots) {
  Config config = config_with_limit(1e12);
  config.parallel.gather_slots = slots;
  const MemoryRanks ranks = assume_device(config, 4, 16.0).ranks;
  return static_cast<double>(MemoryPlanner(config, deep_decoder(), ranks)
                                 .plan({.num_rows = kTokens, .several_micro_batches = true})
                                 .total());
}

TEST(GatherSlots, AreAsManyAsMemoryLeavesRoomFor) {
  for (const int slots : {3, 4, 11, 39}) {
    const double room = (planned(slots) + planned(slots + 1)) / 2;
    EXPECT_EQ(slots_of(config_with_limit(room / 0.94), 4), slots);
  }
  EXPECT_EQ(slots_of(config_with_limit(1e12), 4), kLayers);
}

TEST(GatherSlots, AreAFewWhereEvenTheseHardlyFit) {
  EXPECT_EQ(slots_of(config_with_limit(planned(3)), 4), kLeastGatherSlots);
}

TEST(GatherSlots, AreAFewWhereNothingIsGatheredOrMemoryIsTheHosts) {
  Config config = config_with_limit(1e12);
  EXPECT_EQ(slots_of(config, 1), kLeastGatherSlots);
  config.parallel.zero_stage = 2;
  EXPECT_EQ(slots_of(config, 4), kLeastGatherSlots);
  config.parallel.zero_stage = 3;
  config.parallel.backend = BackendKind::kMpi;
  const AssumedDevice host = assume_device(config, 4);
  EXPECT_EQ(assumed_gather_slots(config, deep_decoder(), kTokens, host), kLeastGatherSlots);
}

TEST(GatherSlots, AreWhatIsAskedFor) {
  Config config = config_with_limit(1.0);
  config.parallel.gather_slots = 7;
  EXPECT_EQ(slots_of(config, 4), 7);
}

}  // namespace
}  // namespace packtrain
