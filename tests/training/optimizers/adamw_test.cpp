#include "training/optimizers/adamw.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/training/optimizers/shard.h"

namespace packtrain::test {
namespace {

struct Expected {
  at::Tensor master, exp_avg, exp_avg_sq;
  at::Tensor scale;  // of the numbers that were added up to `master`
};

// The header's formula, in float64.
Expected reference(const AdamWTensors& shard, const AdamWOptions& o, double clip) {
  const auto wide = [](const at::Tensor& t) { return t.to(at::kCPU, at::kDouble); };
  const at::Tensor g = wide(shard.grad).mul(clip);
  const at::Tensor m = wide(shard.exp_avg).mul(o.beta1).add(g, 1 - o.beta1);
  const at::Tensor v = wide(shard.exp_avg_sq).mul(o.beta2).add(g.square(), 1 - o.beta2);
  const auto step = static_cast<double>(o.step);
  const at::Tensor w_before = wide(shard.master);
  const at::Tensor denominator = v.div(1 - std::pow(o.beta2, step)).sqrt().add(o.epsilon);
  const auto update = [&](const at::Tensor& moment) {
    return moment.mul(o.learning_rate / (1 - std::pow(o.beta1, step))).div(denominator);
  };
  const at::Tensor w = w_before.mul(1 - o.learning_rate * o.weight_decay.front()).sub(update(m));
  const at::Tensor terms_of_m = wide(shard.exp_avg).abs().mul(o.beta1).add(g.abs(), 1 - o.beta1);
  return {w, m, v, w_before.abs().add(update(terms_of_m))};
}

double largest_difference(const at::Tensor& got, const at::Tensor& wanted,
                          const at::Tensor& scale) {
  return got.to(at::kCPU, at::kDouble).sub(wanted).div(scale).abs().max().item<double>();
}

struct Case {
  std::int64_t numel;
  std::int64_t offset;
  at::ScalarType grad;
  at::ScalarType moments;
  std::int64_t step;
};

class AdamW : public ::testing::TestWithParam<Case> {};

TEST_P(AdamW, FollowsTheFormulaInFloat64) {
  const auto [numel, offset, grad, moments, step] = GetParam();
  AdamWTensors shard =
      make_shard({.numel = numel, .offset = offset, .grad = grad, .moments = moments});
  const AdamWOptions options = options_of_step(step);
  const Expected expected = reference(shard, options, 0.25);
  shard.weight =
      at::full({numel + offset}, 9.0, at::TensorOptions(at::kBFloat16).device(test_device()))
          .slice(0, offset);

  adamw_all(shard, options, 0.25F);

  constexpr double kFewRoundings = 8 * 0x1p-24;
  EXPECT_LT(largest_difference(shard.master, expected.master, expected.scale), kFewRoundings);
  EXPECT_TRUE(at::equal(shard.weight, shard.master.to(at::kBFloat16)));
  if (moments == at::kFloat) {
    const at::Tensor one = at::ones({}, at::kDouble);  // moments and their terms are below 1
    EXPECT_LT(largest_difference(shard.exp_avg, expected.exp_avg, one), kFewRoundings);
    EXPECT_LT(largest_difference(shard.exp_avg_sq, expected.exp_avg_sq, one), kFewRoundings);
  } else {
    // Down or up: less than one step of bfloat16, a share of at most 2^-7.
    const auto scale = [](const at::Tensor& t) { return t.abs().add(1e-6); };
    constexpr double kOneStep = 0x1p-7 * 1.01;
    EXPECT_LT(largest_difference(shard.exp_avg, expected.exp_avg, scale(expected.exp_avg)),
              kOneStep);
    EXPECT_LT(largest_difference(shard.exp_avg_sq, expected.exp_avg_sq, scale(expected.exp_avg_sq)),
              kOneStep);
  }
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const at::ScalarType grad : {at::kFloat, at::kBFloat16}) {
    for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
      for (const auto& [numel, offset, step] : {std::tuple{1, 0, 1},
                                                {31, 0, 100000},
                                                {4096, 0, 7},
                                                {1000003, 0, 1},
                                                {4099, 1, 3},
                                                {4096, 3, 1},
                                                {2000000, 0, 2}}) {
        list.push_back({numel, offset, grad, moments, step});
      }
    }
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdamW, ::testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  const auto name = [](at::ScalarType type) {
    return std::string(type == at::kFloat ? "float32" : "bfloat16");
  };
  return std::to_string(c.numel) + "_elements_at_" + std::to_string(c.offset) + "_" + name(c.grad) +
         "_gradient_" + name(c.moments) + "_moments_step_" + std::to_string(c.step);
});

TEST(AdamWStep, SkipLeavesEveryBitAsItWas) {
  for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
    const ShardOptions options{.numel = 4104, .moments = moments};
    AdamWTensors shard = make_shard(options);
    shard.grad.fill_(std::nan(""));
    shard.weight = at::full({4104}, 9.0, at::TensorOptions(at::kBFloat16).device(test_device()));
    const std::vector<ShardRange> ranges = {{.begin = 0, .numel = 4104}};
    adamw(shard, ranges, options_of_step(1), clip_factor(std::nanf("")), skip(1));
    EXPECT_TRUE(all_equal(shard, make_shard(options)));
    EXPECT_TRUE(at::equal(shard.weight, at::full_like(shard.weight, 9.0)));
  }
}

TEST(AdamWStep, WeightMayBeMasterOrNothing) {
  AdamWTensors alias = make_shard(1003);
  alias.weight = alias.master;
  const AdamWTensors none = make_shard(1003);
  adamw_all(alias, options_of_step(4));
  adamw_all(none, options_of_step(4));
  EXPECT_TRUE(at::equal(alias.master, none.master));
  EXPECT_FALSE(at::equal(alias.master, make_shard(1003).master));
}

// Ranges of one call against calls of one range each.
void expect_ranges_equal_slices(const std::vector<std::int64_t>& ends, at::ScalarType moments) {
  const ShardOptions options{.numel = ends.back(), .moments = moments};
  const AdamWTensors whole = make_shard(options);
  const AdamWTensors parts = make_shard(options);
  std::vector<ShardRange> ranges;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const OptimizerGroup group =
        ranges.size() % 3 != 1 ? OptimizerGroup::kDecay : OptimizerGroup::kNoDecay;
    const std::int64_t first = 7 * begin + 16;  // as another rank's elements are numbered
    ranges.push_back({begin, end - begin, group, first});
    const std::vector<ShardRange> alone = {{0, end - begin, group, first}};
    adamw(slice(parts, begin, end), alone, options_of_step(2), clip_factor(0.5F), skip(0));
    begin = end;
  }
  adamw(whole, ranges, options_of_step(2), clip_factor(0.5F), skip(0));
  EXPECT_TRUE(all_equal(whole, parts));
}

TEST(AdamWStep, OneCallEqualsItsSlices) {
  std::vector<std::int64_t> many;
  for (std::int64_t k = 1; k <= 300; ++k) many.push_back(64 * k);  // more than one launch takes
  for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
    expect_ranges_equal_slices({2048, 2056, 5000}, moments);
    expect_ranges_equal_slices({1, 2048, 2051, 5000}, moments);
    expect_ranges_equal_slices(many, moments);
  }
}

TEST(AdamWStep, EachRangeDecaysByTheWeightDecayOfItsGroup) {
  const AdamWTensors shard = make_shard(4096);
  shard.grad.zero_();
  shard.exp_avg.zero_();
  const std::vector<ShardRange> ranges = {
      {.begin = 0, .numel = 1024},
      {.begin = 1024, .numel = 3072, .group = OptimizerGroup::kNoDecay}};
  adamw(shard, ranges, options_of_step(1), clip_factor(1), skip(0));
  const AdamWTensors before = make_shard(4096);
  EXPECT_TRUE(at::equal(shard.master.slice(0, 1024), before.master.slice(0, 1024)));
  const at::Tensor decayed = before.master.slice(0, 0, 1024).to(at::kDouble).mul(1 - 3e-3 * 0.1);
  EXPECT_LT(largest_difference(shard.master.slice(0, 0, 1024), decayed.cpu(), decayed.cpu().abs()),
            0x1p-22);
}

TEST(AdamWStep, AnEmptyShardIsFine) {
  adamw_all(make_shard(0), options_of_step(1));
  adamw(make_shard(0), {}, options_of_step(1), clip_factor(1), skip(0));
}

TEST(AdamWStep, RefusesTensorsAndRangesThatDoNotFit) {
  const AdamWTensors shard = make_shard(8);
  const auto refuses = [&](auto&& change) {
    AdamWTensors changed = shard;
    change(changed);
    EXPECT_THROW(adamw_all(changed, options_of_step(1)), Error);
  };
  refuses([](AdamWTensors& t) { t.grad = t.grad.slice(0, 1); });
  refuses([](AdamWTensors& t) { t.grad = t.grad.to(at::kHalf); });
  refuses([](AdamWTensors& t) { t.grad = at::Tensor(); });
  refuses([](AdamWTensors& t) { t.exp_avg = t.exp_avg.to(at::kBFloat16); });
  refuses([](AdamWTensors& t) { t.weight = t.master.to(at::kHalf); });
  refuses([](AdamWTensors& t) { t.weight = t.master.clone(); });
  const auto refuses_ranges = [&](const std::vector<ShardRange>& ranges) {
    EXPECT_THROW(adamw(shard, ranges, options_of_step(1), clip_factor(1), skip(0)), Error);
  };
  refuses_ranges({});
  refuses_ranges({{.begin = 0, .numel = 7}});
  refuses_ranges({{.begin = 0, .numel = 9}});
  refuses_ranges({{.begin = 0, .numel = 4}, {.begin = 5, .numel = 3}});
}

TEST(AdamWState, IsTwoMomentsOfTheTypeAskedForWithTheNamesOfCheckpoints) {
  const auto state = adamw_state(at::kBFloat16);
  ASSERT_EQ(state.size(), 2U);
  EXPECT_EQ(state[0].name, "exp_avg");
  EXPECT_EQ(state[1].name, "exp_avg_sq");
  EXPECT_EQ(state[0].dtype, at::kBFloat16);
  EXPECT_EQ(state[1].dtype, at::kBFloat16);
  EXPECT_EQ(state_bytes(state, 10), 40);
  EXPECT_EQ(state_bytes(adamw_state(at::kFloat), 10), 80);
}

}  // namespace
}  // namespace packtrain::test
