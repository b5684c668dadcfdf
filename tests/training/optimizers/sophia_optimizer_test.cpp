// Sophia by the interface of optimizers, its state, and the largest magnitudes that it finds.
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "tests/training/optimizers/sophia_shard.h"

namespace packtrain::test {
namespace {

TEST(SophiaStep, FindsTheLargestMagnitudeOfTheWeightsOfEachRange) {
  for (const bool is_rounded : {true, false}) {
    SophiaTensors shard = sophia_shard({.numel = 5000});
    shard.weight = is_rounded ? at::zeros_like(shard.master, at::kBFloat16) : shard.master;
    shard.amax = at::zeros({2}, at::TensorOptions(at::kInt).device(test_device()));
    const std::vector<ShardRange> ranges = {
        {.begin = 0, .numel = 1000, .amax = 1},
        {.begin = 1000, .numel = 1500, .first_element = 1000},
        {.begin = 2500, .numel = 2500, .first_element = 2500, .amax = 0}};
    sophia(shard, ranges, sophia_options(2), clip_factor(1), skip(0));
    for (const ShardRange& range : ranges) {
      if (range.amax < 0) continue;
      const at::Tensor part = shard.weight.narrow(0, range.begin, range.numel);
      const auto want = part.abs().max().to(at::kFloat).view(at::kInt).item<std::int32_t>();
      EXPECT_EQ(shard.amax[range.amax].item<std::int32_t>(), want) << range.begin;
    }
  }
}

TEST(SophiaOptimizer, UpdatesAsTheOperatorsDo) {
  OptimizerSection section;
  section.name = "sophia";
  section.betas = {0.8, 0.9};
  section.gamma = 0.08;
  section.epsilon = 1e-12;
  section.weight_decay = 0.2;
  SophiaOptions options = sophia_options(3);
  options.beta1 = 0.8;
  options.beta2 = 0.9;
  options.gamma = 0.08;
  options.epsilon = 1e-12;
  options.seed = 5;
  const SophiaTensors want = sophia_shard({.numel = 1024});
  const SophiaTensors got = sophia_shard({.numel = 1024});
  const at::Tensor clip = clip_factor(0.5F);
  sophia(want, one_range(1024), options, clip, skip(0));
  sophia_hessian(want, one_range(1024), options, kTokens, skip(0));
  const auto optimizer = make_optimizer(section, /*seed=*/5);
  const ShardPart part{got.master, got.grad, {got.exp_avg, got.hessian}, {}};
  EXPECT_TRUE(optimizer->has_hessian());
  optimizer->update(part, one_range(1024), {3e-3, 3, clip, skip(0)});
  optimizer->update_hessian(part, one_range(1024), {kTokens, 3, skip(0)});
  EXPECT_TRUE(at::equal(got.master, want.master));
  EXPECT_TRUE(at::equal(got.exp_avg, want.exp_avg));
  EXPECT_TRUE(at::equal(got.hessian, want.hessian));
  EXPECT_FALSE(at::equal(got.master, sophia_shard({.numel = 1024}).master));
}

TEST(SophiaState, HasTheBytesOfAdamW) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    EXPECT_EQ(state_bytes(sophia_state(type), 10), state_bytes(adamw_state(type), 10));
  }
}

}  // namespace
}  // namespace packtrain::test
