// Run with 1, 2 and 4 ranks over MPI: the scales of weights in 8-bit products.
#include "parallel/sharding/weight_scales.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "models/ops/fp8/fp8.h"
#include "tests/parallel/sharding/sharded_model_harness.h"

namespace packtrain::test {
namespace {

// Matrices of 16,384 elements, of which four ranks have 4,096 each.
const ToyOptions kToy{.num_layers = 3,
                      .hidden = 128,
                      .frozen_layers = {1},
                      .layer_encoding = {DataType::kBFloat16},
                      .in_fp8 = true};

std::map<std::string, int> scale_numbers(const ShardedModel& model) {
  std::map<std::string, int> numbers;
  for (const Unit& unit : model.units().units) {
    for (const UnitPart& part : unit.parts) {
      for (const Segment& segment : part.layout.segments) {
        if (segment.scale >= 0) numbers[segment.spec.name] = segment.scale;
      }
    }
  }
  return numbers;
}

// Makes `value` the largest number of a weight, in its last element.
void set_largest(ShardedModel& model, const std::string& weight, double value) {
  const at::NoGradGuard no_grad;
  for (const ShardView& shard : model.parameters().shards()) {
    if (shard.parameter != weight) continue;
    shard.weight.clamp_(-1.0, 1.0);
    const std::int64_t last = kToy.hidden * kToy.hidden - 1;
    if (shard.begin + shard.numel > last) shard.weight[last - shard.begin] = value;
  }
}

double amax_of(const ShardedModel& model, int number) {
  return model.parameters().scales().scale(number)[1].item<double>();
}

TEST(WeightScales, OfLoadedWeightsAreThoseOfTheWholeWeightOnEveryRank) {
  Harness harness(kToy, {}, 0);
  ShardedModel& model = harness.model();
  const std::map<std::string, int> numbers = scale_numbers(model);
  EXPECT_EQ(numbers.size(), 3U);
  double largest = 4.0;
  for (const auto& [name, number] : numbers) set_largest(model, name, -(largest += 0.5));
  model.parameters().weights_changed();
  largest = 4.0;
  for (const auto& [name, number] : numbers) {
    EXPECT_EQ(amax_of(model, number), largest += 0.5) << name;
    const at::Tensor scale = model.parameters().scales().scale(number);
    const at::Tensor alone = make_fp8_scale(scale);
    fp8_cast(at::full({1, 16}, largest, at::kFloat), alone, {.rows = true});
    EXPECT_TRUE(scale.equal(alone)) << name;
  }
}

// What an update enters on this rank, as bits.
void enter(ShardedModel& model, int number, float amax) {
  const at::Tensor bits = at::full({}, amax, at::kFloat).view(at::kInt);
  model.parameters().scales().amax()[number].copy_(bits);
}

TEST(WeightScales, OfAnUpdateAreTheLargestOfTheRanksAndFrozenOnesStay) {
  Harness harness(kToy, {}, 0);
  ShardedModel& model = harness.model();
  const double frozen = amax_of(model, 2);
  EXPECT_GT(frozen, 0);
  model.parameters().begin_update(at::full({}, 0, at::kByte));
  enter(model, 0, static_cast<float>(3 + world->rank()));
  model.parameters().end_update();
  EXPECT_EQ(amax_of(model, 0), 3 + world->size() - 1);
  EXPECT_EQ(amax_of(model, 1), 0);  // nothing was entered, and the old one is gone
  EXPECT_EQ(amax_of(model, 2), frozen);
}

TEST(WeightScales, OfASkippedUpdateStay) {
  Harness harness(kToy, {}, 0);
  ShardedModel& model = harness.model();
  const at::Tensor before = model.parameters().scales().amax().clone();
  model.parameters().begin_update(at::full({}, 1, at::kByte));
  model.parameters().end_update();
  EXPECT_TRUE(model.parameters().scales().amax().equal(before));
}

TEST(WeightScales, GathersSendCodesOfTheLatestWeights) {
  Harness gathering(kToy, {.check_gathers = true}, 200);
  Harness whole(kToy, {}, 0, /*shard_size=*/1);
  std::vector<DeviceBatch> batches = {toy_batch(world->rank(), 0, kToy.hidden)};
  for (const double factor : {1.0, 3.7, 1e-4, 60.0}) {
    std::vector<double> losses;
    for (Harness* harness : {&gathering, &whole}) {
      const at::NoGradGuard no_grad;
      ShardedModel& model = harness->model();
      for (const ShardView& shard : model.parameters().shards()) shard.weight.mul_(factor);
      model.parameters().weights_changed();
      losses.push_back(model.train(batches).item<double>());
    }
    EXPECT_EQ(losses[0], losses[1]) << factor;
  }
}

TEST(WeightScales, OfAModelWithoutSuchWeightsAreNone) {
  Harness harness(models().front(), {}, 0);
  EXPECT_TRUE(harness.model().parameters().scales().empty());
  harness.model().parameters().begin_update(at::full({}, 0, at::kByte));
  harness.model().parameters().end_update();
}

}  // namespace
}  // namespace packtrain::test
