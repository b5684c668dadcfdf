// bfloat16 moments: rounding right on average, repeatable, and good enough to train with.
#include "training/optimizers/stochastic_rounding.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/le.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/training/optimizers/shard.h"

namespace packtrain::test {
namespace {

// Made with the reference implementation's published vectors for 7 rounds (Random123, kat_vectors).
TEST(Philox, GivesThePublishedWords) {
  const auto expect_words = [](const RandomWords& got, std::initializer_list<std::uint32_t> want) {
    EXPECT_TRUE(std::equal(want.begin(), want.end(), std::begin(got.values)));
  };
  expect_words(philox(0, 0, 0), {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  constexpr auto kOnes = ~std::uint64_t{0};
  expect_words(philox(kOnes, kOnes, kOnes), {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
}

float rounded(float x, std::uint32_t random) {
  const std::uint32_t bits = round_stochastically(std::bit_cast<std::uint32_t>(x), random);
  return std::bit_cast<float>(bits << 16);
}

TEST(StochasticRounding, KeepsWhatIsExactAndWhatIsNotFinite) {
  for (const float x : {0.0F, 1.0F, -1.5F, 0x1p-120F, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(rounded(x, 0), x);
    EXPECT_EQ(rounded(x, 0xFFFF), x);
  }
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN(), 0xFFFF)));
  EXPECT_EQ(rounded(1.0F + 0x1p-9F, 0), 1.0F);  // a quarter of the way: up for a quarter of 2^16
  EXPECT_EQ(rounded(1.0F + 0x1p-9F, 0xBFFF), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1p-9F, 0xC000), 1.0F + 0x1p-7F);
}

constexpr std::int64_t kNumel = 1 << 20;

AdamWTensors bfloat16_shard() {
  return make_shard({.numel = kNumel, .moments = at::kBFloat16});
}

// exp_avg becomes the gradient itself.
AdamWOptions options_without_memory(std::int64_t step) {
  AdamWOptions options = options_of_step(step);
  options.beta1 = 0;
  options.beta2 = 0;
  return options;
}

TEST(StochasticRounding, IsRightOnAverage) {
  for (const double share : {0.03, 0.25, 0.5, 0.9}) {
    for (const double sign : {1.0, -1.0}) {
      const AdamWTensors shard = bfloat16_shard();
      const double step = 0x1p-7;
      const double value = sign * (1 + share * step);
      shard.grad.fill_(value);
      adamw_all(shard, options_without_memory(5));
      const double mean = shard.exp_avg.to(at::kDouble).mean().item<double>();
      // Of a coin thrown kNumel times; five standard deviations.
      const double deviation = step * std::sqrt(share * (1 - share) / kNumel);
      EXPECT_NEAR(mean, sign * (1 + share * step), 5 * deviation + 1e-9) << value;
      const at::Tensor size = shard.exp_avg.abs().to(at::kFloat);
      EXPECT_TRUE(size.eq(1.0).logical_or(size.eq(1 + step)).all().item<bool>());
    }
  }
}

// Returns which elements were rounded up.
at::Tensor ups(std::int64_t step, std::uint64_t seed, bool second_moment = false) {
  const AdamWTensors shard = bfloat16_shard();
  shard.grad.fill_(std::sqrt(1 + 0x1p-8));
  AdamWOptions options = options_without_memory(step);
  options.seed = seed;
  if (!second_moment) shard.grad.fill_(1 + 0x1p-8);
  adamw_all(shard, options);
  return (second_moment ? shard.exp_avg_sq : shard.exp_avg).gt(1.0);
}

TEST(StochasticRounding, RepeatsExactlyAndDiffersByStepSeedAndMoment) {
  const at::Tensor first = ups(1, 3);
  EXPECT_TRUE(at::equal(first, ups(1, 3)));
  for (const at::Tensor& other : {ups(2, 3), ups(1, 4), ups(1, 3, true)}) {
    const double agreement = first.eq(other).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(agreement, 0.5, 0.005);
  }
  // Neighbours fall independently too.
  const at::Tensor shifted = first.slice(0, 1).eq(first.slice(0, 0, kNumel - 1));
  EXPECT_NEAR(shifted.to(at::kDouble).mean().item<double>(), 0.5, 0.005);
}

// Mean squared distance from the minimum of a noisy quadratic after many steps. Nearly constant
// second moments of beta2 = 0.999 are what rounding to the nearest would freeze.
double distance_after_training(at::ScalarType moments) {
  constexpr std::int64_t kSize = 4096;
  AdamWTensors shard = make_shard({.numel = kSize, .moments = moments});
  shard.exp_avg.zero_();
  shard.exp_avg_sq.zero_();
  const at::Tensor start = shard.master.clone();
  const AdamWTensors noise = make_shard({.numel = kSize * 64});
  AdamWOptions options = options_of_step(1);
  options.beta2 = 0.999;
  options.weight_decay = {};
  options.learning_rate = 2e-3;
  for (std::int64_t step = 1; step <= 400; ++step) {
    // Noise that shrinks: a second moment that cannot fall makes steps too small.
    const double scale = step < 100 ? 1.0 : 0.05;
    shard.grad =
        shard.master.sub(1.0).add(noise.grad.narrow(0, step * 613 % (kSize * 63), kSize), scale);
    options.step = step;
    adamw_all(shard, options);
  }
  EXPECT_GT(shard.master.sub(start).abs().mean().item<double>(), 0.1);
  return shard.master.sub(1.0).square().mean().item<double>();
}

TEST(StochasticRounding, TrainsAsWellAsFloat32) {
  const double wide = distance_after_training(at::kFloat);
  EXPECT_NEAR(distance_after_training(at::kBFloat16), wide, 0.05 * wide);
}

}  // namespace
}  // namespace packtrain::test
