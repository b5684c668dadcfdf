#include "models/ops/adamw/adamw.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "framework/support/error.h"
#include "framework/support/random.h"

namespace packtrain {
namespace {

at::Device test_device() {
  const char* name = std::getenv("PACKTRAIN_TEST_DEVICE");
  return at::Device(name == nullptr ? "cpu" : name);
}

// A shard with numbers of realistic size.
struct Shard {
  explicit Shard(std::int64_t numel, std::int64_t offset = 0)
      : master(random("master", numel, offset, 0.05)),
        grad(random("grad", numel, offset, 0.3)),
        exp_avg(random("exp_avg", numel, offset, 0.02)),
        exp_avg_sq(random("exp_avg_sq", numel, offset, 0.03).square_()) {}

  // [numel] of a larger buffer, from `offset` on: `offset` unaligns the addresses.
  static at::Tensor random(const char* name, std::int64_t numel, std::int64_t offset,
                           double scale) {
    const CounterRandom numbers(11, name);
    at::Tensor buffer = at::empty({numel + offset}, at::kFloat);
    auto* data = buffer.mutable_data_ptr<float>();
    for (std::int64_t i = 0; i < numel + offset; ++i) {
      data[i] = static_cast<float>(scale * numbers.normal(static_cast<std::uint64_t>(i)));
    }
    return buffer.to(test_device()).slice(0, offset);
  }

  at::Tensor master, grad, exp_avg, exp_avg_sq;
};

AdamWOptions options_of_step(std::int64_t step) {
  AdamWOptions options;
  options.learning_rate = 3e-3;
  options.weight_decay = 0.1;
  options.step = step;
  return options;
}

at::Tensor clip_factor(float value) {
  return at::full({}, value, at::TensorOptions(at::kFloat).device(test_device()));
}

at::Tensor skip(int value) {
  return at::full({}, value, at::TensorOptions(at::kByte).device(test_device()));
}

struct Expected {
  at::Tensor master, exp_avg, exp_avg_sq;
  at::Tensor scale;  // of the numbers that were added up to `master`
};

// The header's formula, in float64.
Expected reference(const Shard& shard, const AdamWOptions& o, double clip) {
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
  const at::Tensor w = w_before.mul(1 - o.learning_rate * o.weight_decay).sub(update(m));
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
  bool bfloat16_weight;
  std::int64_t step;
};

class AdamW : public testing::TestWithParam<Case> {};

TEST_P(AdamW, FollowsTheFormulaInFloat64) {
  const auto [numel, offset, bfloat16_weight, step] = GetParam();
  const Shard shard(numel, offset);
  const AdamWOptions options = options_of_step(step);
  const Expected expected = reference(shard, options, 0.25);
  const at::Tensor weight =
      at::full(
          {numel + offset}, 9.0,
          at::TensorOptions(bfloat16_weight ? at::kBFloat16 : at::kFloat).device(test_device()))
          .slice(0, offset);

  adamw(shard.master, shard.grad, shard.exp_avg, shard.exp_avg_sq, weight, options,
        clip_factor(0.25F), skip(0));

  constexpr double kFewRoundings = 8 * 0x1p-24;
  EXPECT_LT(largest_difference(shard.master, expected.master, expected.scale), kFewRoundings);
  const at::Tensor one = at::ones({}, at::kDouble);  // moments and their terms are below 1
  EXPECT_LT(largest_difference(shard.exp_avg, expected.exp_avg, one), kFewRoundings);
  EXPECT_LT(largest_difference(shard.exp_avg_sq, expected.exp_avg_sq, one), kFewRoundings);
  EXPECT_TRUE(at::equal(weight, shard.master.to(weight.scalar_type())));
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, AdamW,
    testing::Values(Case{1, 0, true, 1}, Case{31, 0, true, 2}, Case{1000003, 0, true, 1},
                    Case{1, 0, false, 1}, Case{31, 0, false, 100000}, Case{1000003, 0, false, 7},
                    Case{4099, 1, true, 3}, Case{4099, 1, false, 3}, Case{4096, 3, true, 1}),
    [](const testing::TestParamInfo<Case>& info) {
      const Case& c = info.param;
      return std::to_string(c.numel) + "_elements_at_" + std::to_string(c.offset) +
             (c.bfloat16_weight ? "_bfloat16" : "_float32") + "_step_" + std::to_string(c.step);
    });

TEST(AdamWStep, SkipLeavesEveryBitAsItWas) {
  Shard shard(4097);
  shard.grad.fill_(std::nan(""));
  const Shard before(4097);
  const at::Tensor weight =
      at::full({4097}, 9.0, at::TensorOptions(at::kBFloat16).device(test_device()));
  adamw(shard.master, shard.grad, shard.exp_avg, shard.exp_avg_sq, weight, options_of_step(1),
        clip_factor(std::nanf("")), skip(1));
  EXPECT_TRUE(at::equal(shard.master, before.master));
  EXPECT_TRUE(at::equal(shard.exp_avg, before.exp_avg));
  EXPECT_TRUE(at::equal(shard.exp_avg_sq, before.exp_avg_sq));
  EXPECT_TRUE(at::equal(weight, at::full_like(weight, 9.0)));
}

TEST(AdamWStep, WeightMayBeMasterOrNothing) {
  const Shard alias(1003);
  const Shard none(1003);
  adamw(alias.master, alias.grad, alias.exp_avg, alias.exp_avg_sq, alias.master, options_of_step(4),
        clip_factor(1), skip(0));
  adamw(none.master, none.grad, none.exp_avg, none.exp_avg_sq, at::Tensor(), options_of_step(4),
        clip_factor(1), skip(0));
  EXPECT_TRUE(at::equal(alias.master, none.master));
  EXPECT_FALSE(at::equal(alias.master, Shard(1003).master));
}

TEST(AdamWStep, OneCallEqualsItsSlices) {
  const Shard whole(5000);
  const Shard parts(5000);
  adamw(whole.master, whole.grad, whole.exp_avg, whole.exp_avg_sq, at::Tensor(), options_of_step(2),
        clip_factor(0.5F), skip(0));
  for (const auto& [begin, end] : {std::pair{0, 1}, std::pair{1, 2048}, std::pair{2048, 5000}}) {
    adamw(parts.master.slice(0, begin, end), parts.grad.slice(0, begin, end),
          parts.exp_avg.slice(0, begin, end), parts.exp_avg_sq.slice(0, begin, end), at::Tensor(),
          options_of_step(2), clip_factor(0.5F), skip(0));
  }
  EXPECT_TRUE(at::equal(whole.master, parts.master));
  EXPECT_TRUE(at::equal(whole.exp_avg, parts.exp_avg));
  EXPECT_TRUE(at::equal(whole.exp_avg_sq, parts.exp_avg_sq));
}

TEST(AdamWStep, AnEmptyShardIsFine) {
  const Shard shard(0);
  adamw(shard.master, shard.grad, shard.exp_avg, shard.exp_avg_sq, at::Tensor(), options_of_step(1),
        clip_factor(1), skip(0));
}

TEST(AdamWStep, RefusesTensorsThatDoNotFit) {
  const Shard shard(8);
  const auto step_with = [&](const at::Tensor& grad, const at::Tensor& weight) {
    adamw(shard.master, grad, shard.exp_avg, shard.exp_avg_sq, weight, options_of_step(1),
          clip_factor(1), skip(0));
  };
  EXPECT_THROW(step_with(shard.grad.slice(0, 1), at::Tensor()), Error);
  EXPECT_THROW(step_with(shard.grad.to(at::kBFloat16), at::Tensor()), Error);
  EXPECT_THROW(step_with(at::Tensor(), at::Tensor()), Error);
  EXPECT_THROW(step_with(shard.grad, shard.master.to(at::kHalf)), Error);
}

}  // namespace
}  // namespace packtrain
