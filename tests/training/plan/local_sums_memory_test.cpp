// Local gradient sums in the memory plan, against what a rank of several allocates.
#include <gtest/gtest.h>

#include <string_view>

#include "models/decoder/decoder.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "tests/training/plan/lone_rank.h"
#include "tests/training/small_decoder.h"
#include "training/plan/memory_plan.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"

namespace packtrain::local_sums_test {
namespace {

constexpr int kRanks = 4;

Config config_of(Precision reduce, Accumulate accumulate) {
  Config config;
  config.precision.reduce = reduce;
  config.parallel.accumulate = accumulate;
  return config;
}

MemoryPlan plan_of(const Config& config, int num_ranks = kRanks) {
  return MemoryPlanner(config, small_decoder(), {DeviceKind::kCpu, num_ranks})
      .plan({.num_rows = 128, .several_micro_batches = true});
}

std::int64_t bytes_of(const MemoryPlan& plan, std::string_view name) {
  for (const MemoryEntry& entry : plan.allocated) {
    if (entry.name == name) return entry.bytes;
  }
  return 0;
}

// Of the gradients' memory alone: the rest does not depend on when they are reduced.
std::int64_t allocated_bytes(const Config& config) {
  const auto device = make_cpu_device({});
  const auto world = join_world();
  ShardedModel model(
      make_decoder(small_decoder(), decoder_options(config, small_decoder())), *device,
      {std::make_unique<LoneRank>(*world, kRanks), std::make_unique<LoneRank>(*world, kRanks)},
      sharding_options(config));
  return model.parameters().communication_bytes() + model.local_sum_bytes();
}

TEST(LocalSumsMemory, IsWhatAModelAllocates) {
  for (const Precision reduce : {Precision::kFloat32, Precision::kBFloat16}) {
    const Config local = config_of(reduce, Accumulate::kLocal);
    const Config shard = config_of(reduce, Accumulate::kShard);
    const auto planned =
        static_cast<double>(plan_of(local).allocated_bytes() - plan_of(shard).allocated_bytes());
    const auto found = static_cast<double>(allocated_bytes(local) - allocated_bytes(shard));
    EXPECT_GT(found, 0);
    EXPECT_NEAR(planned, found, 0.02 * found) << "allocations are rounded up";
  }
}

TEST(LocalSumsMemory, IsFourBytesATrainedElementOnSeveralRanks) {
  for (const Precision reduce : {Precision::kFloat32, Precision::kBFloat16}) {
    Config local = config_of(reduce, Accumulate::kLocal);
    const MemoryPlan plan = plan_of(local);
    const std::int64_t owned = bytes_of(plan, "master weights");
    EXPECT_EQ(bytes_of(plan, "local gradient sums"), kRanks * owned);
    // What is reduced once needs no float32 sum over micro-batches.
    EXPECT_EQ(bytes_of(plan, "gradient"), reduce == Precision::kFloat32 ? owned : owned / 2);
    EXPECT_EQ(bytes_of(plan_of(local, 1), "local gradient sums"), 0);
    local.model.frozen = {"layers.*"};
    EXPECT_LT(bytes_of(plan_of(local), "local gradient sums"), kRanks * owned);
  }
}

}  // namespace
}  // namespace packtrain::local_sums_test
