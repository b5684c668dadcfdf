// A copy of the state that training may not overtake.
#include "training/saving/state_snapshot.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace packtrain {
namespace {

ShardView shard_of(double value) {
  const auto flat = [&](double by) { return at::full({1000}, value * by, at::kFloat); };
  return {"w", {1000}, 0, 1000, true, flat(1), {{"first", flat(2)}, {"second", flat(3)}}};
}

TEST(StateSnapshot, HoldsTheStateOfItsTimeWhileTrainingContinues) {
  const auto device = make_cpu_device({.stream_delay_us = 20'000});  // of the copies
  const auto compute = device->make_stream(StreamKind::kCompute);
  ShardView shard = shard_of(1);
  StateSnapshot snapshot(std::span(&shard, 1), *device);
  for (int step = 1; step <= 10; ++step) {
    snapshot.take(*compute);
    snapshot.wait_until_copied(*compute);
    compute->run([&](StreamHandle) {
      shard.weight.add_(1);
      for (const OptimizerTensor& tensor : shard.optimizer) tensor.values.add_(1);
    });
    const ShardView& copy = snapshot.shards()[0];
    EXPECT_TRUE(copy.weight.eq(step).all().item<bool>()) << step;
    EXPECT_TRUE(copy.optimizer[0].values.eq(step + 1).all().item<bool>()) << step;
    EXPECT_TRUE(copy.optimizer[1].values.eq(step + 2).all().item<bool>()) << step;
  }
}

TEST(StateSnapshot, LeavesOutWhatAFrozenParameterLacks) {
  const auto device = make_cpu_device({});
  const auto compute = device->make_stream(StreamKind::kCompute);
  ShardView shard = shard_of(5);
  shard.optimizer.clear();
  StateSnapshot snapshot(std::span(&shard, 1), *device);
  snapshot.take(*compute);
  const ShardView& copy = snapshot.shards()[0];
  EXPECT_TRUE(copy.weight.eq(5).all().item<bool>());
  EXPECT_TRUE(copy.optimizer.empty());
}

}  // namespace
}  // namespace packtrain
