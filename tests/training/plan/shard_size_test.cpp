// Tests how many ranks share one copy of the model's state. A run and a plan agree.
#include "training/plan/shard_size.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "framework/core/error.h"
#include "framework/core/units.h"
#include "parallel/communicators/local/local_world.h"
#include "tests/training/small_decoder.h"

namespace packtrain {
namespace {

// Rank 0 of many equal ranks, so that a collective returns its own value.
class ManyRanks final : public World {
 public:
  ManyRanks(int num_ranks, int ranks_per_host) : size_(num_ranks), local_size_(ranks_per_host) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }
  int local_rank() const override { return 0; }
  int local_size() const override { return local_size_; }
  const std::string& host() const override { return alone_->host(); }
  Backend on_cpu() const override { return alone_->on_cpu(); }
  Communicator& control() override { return alone_->control(); }
  std::unique_ptr<Communicator> connect(Backend backend, const CommunicatorOptions& how) override {
    return alone_->connect(backend, how);
  }
  [[noreturn]] void fail(const std::string& /*text*/, int exit_code) override {
    std::exit(exit_code);  // NOLINT(concurrency-mt-unsafe): never called
  }

 private:
  int size_;
  int local_size_;
  std::unique_ptr<World> alone_ = make_local_world();
};

Config host_config(double limit_gib) {
  Config config;
  config.parallel.backend = Backend::kMpi;
  config.data.max_length = 128;
  config.batch.max_tokens_per_micro_batch.reset();
  config.memory.limit_gib = limit_gib;
  return config;
}

// Has much state relative to its activations.
DecoderConfig large_decoder() {
  DecoderConfig decoder = small_decoder();
  decoder.vocab_size = 1'000'000;
  return decoder;
}

double planned_gib(int num_ranks, int shard_size) {
  const MemoryPlanner planner(host_config(1), large_decoder(),
                              {DeviceKind::kCpu, num_ranks, shard_size});
  return static_cast<double>(planner.plan({.num_rows = 128}).total()) / kGibibyte;
}

DecoderConfig llama_70b() {
  DecoderConfig decoder = small_decoder();
  decoder.vocab_size = 128'256;
  decoder.hidden_size = 8192;
  decoder.intermediate_size = 28'672;
  decoder.num_layers = 80;
  decoder.num_heads = 64;
  decoder.num_kv_heads = 8;
  decoder.head_dim = 128;
  decoder.max_positions = 8192;
  return decoder;
}

Config llama_config() {
  Config config;
  config.parallel.backend = Backend::kNccl;
  config.data.max_length = 8192;
  config.batch.max_tokens_per_micro_batch = 8192;
  config.batch.global_batch_size = 1024;
  config.memory.recompute = Recompute::kFull;
  return config;
}

MemoryPlan llama_plan(const Config& config, const AssumedDevice& device) {
  return MemoryPlanner(config, llama_70b(), device.ranks)
      .plan({.num_rows = 8192, .several_micro_batches = true});
}

TEST(ShardSize, IsTheSameInARunAndInAPlan) {
  struct Case {
    int num_hosts;
    int ranks_per_host;
    int fits_on;  // hosts
    int wanted;   // ranks
  };
  for (const Case& c : {Case{1, 8, 1, 8},
                        {2, 4, 1, 4},
                        {2, 4, 2, 8},
                        {8, 2, 1, 2},
                        {8, 2, 2, 4},
                        {8, 2, 3, 8},
                        {8, 2, 4, 8},
                        {8, 2, 5, 16},
                        {6, 4, 2, 8},
                        {6, 4, 4, 24},
                        {8, 1, 4, 4}}) {
    const int num_ranks = c.num_hosts * c.ranks_per_host;
    const Config config = host_config(planned_gib(num_ranks, c.fits_on * c.ranks_per_host) + 1e-6);
    ManyRanks world(num_ranks, c.ranks_per_host);
    const RankHosts hosts{num_ranks, c.ranks_per_host, true};
    const FoundShardSize run =
        choose_shard_size(config, large_decoder(), *make_cpu_device({}), world);
    const AssumedDevice plan = assume_device(config, large_decoder(), hosts);
    EXPECT_EQ(run.num_ranks, c.wanted) << c.num_hosts << " x " << c.ranks_per_host;
    EXPECT_EQ(plan.ranks.shard_size, run.num_ranks) << c.num_hosts << " x " << c.ranks_per_host;
    EXPECT_EQ(run.by_memory, c.num_hosts > 1);
  }
}

TEST(ShardSize, OfA70BModelIsAsManyHostsAsHoldItsState) {
  const RankHosts hosts{64, 8, true};
  const Config config = llama_config();
  const AssumedDevice h100 = assume_device(config, llama_70b(), hosts, 79.1);
  EXPECT_EQ(h100.ranks.shard_size, 32);
  EXPECT_LE(static_cast<double>(llama_plan(config, h100).total()), 79.1 * kGibibyte);
  const AssumedDevice h200 = assume_device(config, llama_70b(), hosts, 139.8);
  EXPECT_EQ(h200.ranks.shard_size, 16);
  EXPECT_LE(static_cast<double>(llama_plan(config, h200).total()), 139.8 * kGibibyte);
}

TEST(ShardSize, OfOneHostOfA70BModelIsPlannedAsTheRunWouldBe) {
  Config config = llama_config();
  config.parallel.shard_size = 8;
  const AssumedDevice device = assume_device(config, llama_70b(), {64, 8, true}, 79.1);
  const MemoryPlan plan = llama_plan(config, device);
  EXPECT_NEAR(static_cast<double>(plan.total()) / kGibibyte, 180.1, 2.0);
  const std::string told = memory_shortage(plan, device.ranks, device.gpu_bytes, "");
  EXPECT_NE(told.find("raise parallel.shard_size (8 of 64 ranks"), std::string::npos) << told;
  EXPECT_EQ(told.find("more ranks"), std::string::npos) << told;
}

TEST(ShardSize, UsesAGivenTokenBudgetWhereAGroupHasMemoryForIt) {
  Config config = host_config(planned_gib(8, 4) + 1e-6);
  const RankHosts hosts{8, 2, true};
  EXPECT_EQ(assume_device(config, large_decoder(), hosts).ranks.shard_size, 4);
  config.batch.max_tokens_per_micro_batch = 1024;
  EXPECT_EQ(assume_device(config, large_decoder(), hosts).ranks.shard_size, 8);
  config.batch.max_tokens_per_micro_batch = 1 << 20;  // nowhere: one example decides
  EXPECT_EQ(assume_device(config, large_decoder(), hosts).ranks.shard_size, 4);
}

TEST(ShardSize, IsOneHostWhereNoFigureIsFixed) {
  Config config = host_config(1);
  config.memory.limit_gib.reset();
  ManyRanks world(8, 2);
  const FoundShardSize run =
      choose_shard_size(config, large_decoder(), *make_cpu_device({}), world);
  EXPECT_EQ(run.num_ranks, 2);
  EXPECT_FALSE(run.by_memory);
  EXPECT_EQ(assume_device(config, large_decoder(), {8, 2, true}).ranks.shard_size, 2);
}

TEST(ShardSize, OfUnequalHostsIsAllRanks) {
  const RankHosts hosts{12, 8, false};
  EXPECT_EQ(assume_device(host_config(1e6), large_decoder(), hosts).ranks.shard_size, 12);
  EXPECT_EQ(describe_groups(hosts, 12),
            "12: hosts of different numbers of ranks, 8 at most, one group of 12");
}

TEST(ShardSize, IsWhatIsAskedFor) {
  Config config = host_config(1e-6);
  config.parallel.shard_size = 4;
  EXPECT_EQ(assume_device(config, large_decoder(), {16, 8, true}).ranks.shard_size, 4);
  config.parallel.shard_size = 3;
  EXPECT_THROW(assume_device(config, large_decoder(), {16, 8, true}), Error);
}

TEST(ShardSize, StaysWhatTheCheckpointHasWhileItFits) {
  const Config config = host_config(planned_gib(8, 2) + 1e-6);
  ManyRanks world(8, 2);
  const auto chosen = [&](const Config& with, int kept) {
    return choose_shard_size(with, large_decoder(), *make_cpu_device({}), world, kept).num_ranks;
  };
  EXPECT_EQ(chosen(config, 0), 2);
  EXPECT_EQ(chosen(config, 4), 4);
  EXPECT_EQ(chosen(config, 3), 2);                                 // no whole hosts
  EXPECT_EQ(chosen(host_config(planned_gib(8, 4) + 1e-6), 2), 4);  // fits no more
}

TEST(ShardSize, IsReportedWithItsHosts) {
  EXPECT_EQ(describe_groups({16, 8, true}, 8), "16: 2 hosts x 8, groups of 8");
  EXPECT_EQ(describe_groups({16, 8, true}, 16), "16: 2 hosts x 8, one group of 16");
  EXPECT_EQ(describe_groups({8, 8, true}, 8), "8: 1 host x 8, one group of 8");
  EXPECT_EQ(describe_groups({1, 1, true}, 1), "1");
}

TEST(RingRounding, IsWarnedOfWhereAGroupCrossesHostsOnGpus) {
  const RankHosts hosts{16, 8, true};
  Config config;
  EXPECT_TRUE(ring_rounding(config, hosts, 16, DeviceKind::kCuda).has_value());
  EXPECT_FALSE(ring_rounding(config, hosts, 8, DeviceKind::kCuda).has_value());
  EXPECT_FALSE(ring_rounding(config, hosts, 16, DeviceKind::kCpu).has_value());
  config.precision.reduce = Precision::kFloat32;
  EXPECT_FALSE(ring_rounding(config, hosts, 16, DeviceKind::kCuda).has_value());
}

}  // namespace
}  // namespace packtrain
