// Run with 1, 2 and 4 ranks over MPI: gradients that a rank sums over a step's micro-batches.
#include <ATen/ops/count_nonzero.h>
#include <gtest/gtest.h>

#include "tests/parallel/sharding/sharded_model_harness.h"

namespace packtrain::test {
namespace {

ShardingOptions local_options(at::ScalarType reduce = at::kFloat) {
  return {.gather_slots = 2, .sums_locally = true, .reduce = reduce, .poison_slots = true};
}

std::vector<DeviceBatch> batches_of(const ToyOptions& toy, int num_micro_batches) {
  std::vector<DeviceBatch> batches;
  for (int m = 0; m < num_micro_batches; ++m)
    batches.push_back(toy_batch(world->rank(), m, toy.hidden));
  return batches;
}

at::Tensor gradient_of(ShardedModel& model, std::span<DeviceBatch> batches) {
  model.train(batches);
  model.compute().synchronize();
  return model.gradient().clone();
}

TEST(LocalSums, EqualTheBlocksRunByHandInAnyGroupsAndAtAnyStage) {
  for (const ToyOptions& toy : models()) {
    for (int shard_size = 1; shard_size <= world->size(); shard_size *= 2) {
      for (const int stage : {3, 2}) {
        ShardingOptions options = local_options();
        options.zero_stage = stage;
        Harness harness(toy, options, 100, shard_size);
        for (const int micro_batches : {3, 1}) {
          const Reference reference = run_by_hand(toy, world->size(), micro_batches);
          const Schedule schedule = make_schedule(harness.model().units(), harness.model().slots(),
                                                  {micro_batches, true});
          EXPECT_TRUE(is_right(harness.train(schedule, micro_batches, reference), reference))
              << "stage " << stage << ", " << shard_size << " share, " << micro_batches
              << " micro-batches";
          EXPECT_EQ(gaps_of(harness.model()).count_nonzero().item<std::int64_t>(), 0);
        }
      }
    }
  }
}

TEST(LocalSums, EqualReductionsOfEachMicroBatchToRoundingAndRepeatBitForBit) {
  for (const ToyOptions& toy : models()) {
    for (const bool resident : {true, false}) {
      ShardingOptions options = local_options();
      options.resident_embeddings = resident;
      Harness local(toy, options, 0);
      options.sums_locally = false;
      Harness shard(toy, options, 0);
      std::vector<DeviceBatch> batches = batches_of(toy, 4);
      const at::Tensor found = gradient_of(local.model(), batches);
      const at::Tensor wanted = gradient_of(shard.model(), batches);
      EXPECT_LE(found.sub(wanted).norm().item<double>(), 1e-6 * wanted.norm().item<double>());
      EXPECT_TRUE(gradient_of(local.model(), batches).equal(found));
    }
  }
}

TEST(LocalSums, OfOneMicroBatchAreBitEqualToItsReduction) {
  for (const at::ScalarType reduce : {at::kFloat, at::kBFloat16}) {
    ShardingOptions options = local_options(reduce);
    Harness local(models().front(), options, 0);
    options.sums_locally = false;
    Harness shard(models().front(), options, 0);
    std::vector<DeviceBatch> batches = batches_of(models().front(), 1);
    EXPECT_TRUE(gradient_of(local.model(), batches).equal(gradient_of(shard.model(), batches)));
  }
}

TEST(LocalSums, AreRoundedOnceToTheTypeOfTheReduction) {
  for (const ToyOptions& toy : models()) {
    Harness harness(toy, local_options(at::kBFloat16), 0);
    ShardedModel& model = harness.model();
    for (const int micro_batches : {1, 3, 2}) {
      const Reference reference = run_by_hand(toy, world->size(), micro_batches);
      const Schedule schedule = make_schedule(model.units(), model.slots(), {micro_batches, true});
      EXPECT_TRUE(is_right(harness.train(schedule, micro_batches, reference), reference))
          << micro_batches << " micro-batches";
      // One rank adds up in the gradient itself.
      const bool wide = world->size() == 1 && micro_batches > 1;
      EXPECT_EQ(model.gradient().scalar_type(), wide ? at::kFloat : at::kBFloat16);
      EXPECT_EQ(gaps_of(model).count_nonzero().item<std::int64_t>(), 0);
    }
  }
}

TEST(LocalSums, TakeNoMemoryOnOneRankAndNoneForFrozenParameters) {
  const auto bytes_of = [](const ToyOptions& toy, const ShardingOptions& options) {
    return Harness(toy, options, 0).model().parameters().communication_bytes();
  };
  ShardingOptions options = local_options();
  const ToyOptions all{.num_layers = 4, .hidden = 64};
  ToyOptions some = all;
  some.frozen_layers = {1, 2, 3};
  const std::int64_t of_all = bytes_of(all, options);
  const std::int64_t of_some = bytes_of(some, options);
  options.sums_locally = false;
  const std::int64_t sums_of_all = of_all - bytes_of(all, options);
  const std::int64_t sums_of_some = of_some - bytes_of(some, options);
  EXPECT_EQ(sums_of_all > 0, world->size() > 1);
  EXPECT_EQ(sums_of_some < sums_of_all, world->size() > 1);
}

}  // namespace
}  // namespace packtrain::test
