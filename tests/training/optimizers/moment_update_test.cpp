// Muon's two passes and Lion over a flat shard, against their formulas in float64.
#include "training/optimizers/moment_update.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/training/optimizers/shard.h"

namespace packtrain::test {
namespace {

constexpr double kClip = 0.5;

ShardPart make_part(const ShardOptions& options, bool has_weight = false) {
  const AdamWTensors shard = make_shard(options);
  ShardPart part{shard.master, shard.grad, {shard.exp_avg}, shard.master};
  if (has_weight) part.weight = shard.master.to(at::kBFloat16);
  return part;
}

ShardPart copy_of(const ShardPart& part) {
  return {part.master.clone(), part.grad.clone(), {part.state[0].clone()}, part.weight.clone()};
}

// Decays are of the first half alone.
std::vector<ShardRange> halves(std::int64_t numel) {
  return {{.begin = 0, .numel = numel / 2},
          {.begin = numel / 2,
           .numel = numel - numel / 2,
           .group = OptimizerGroup::kNoDecay,
           .first_element = numel / 2}};
}

MomentOptions options_with_decay() {
  MomentOptions options;
  options.learning_rate = 0.01;
  options.beta1 = 0.9;
  options.beta2 = 0.8;
  options.weight_decay = {0.3, 0};
  options.seed = 7;
  return options;
}

void run(MomentRule rule, const ShardPart& part, int skipped = 0) {
  moment_update(rule, part, halves(part.master.numel()), options_with_decay(),
                {0.01, 1, clip_factor(kClip), skip(skipped)});
}

at::Tensor exact(const at::Tensor& x) {
  return x.to(at::kCPU, at::kDouble);
}

at::Tensor decayed(const at::Tensor& master) {
  at::Tensor w = exact(master).clone();
  w.narrow(0, 0, w.numel() / 2).mul_(1 - 0.01 * 0.3);
  return w;
}

bool close(const at::Tensor& found, const at::Tensor& wanted) {
  return at::allclose(exact(found), wanted, 1e-5, 1e-7);
}

class EachSize : public ::testing::TestWithParam<ShardOptions> {};

TEST_P(EachSize, MuonsFirstPassWritesNesterovsMomentumOverTheGradient) {
  const ShardPart part = make_part(GetParam());
  const ShardPart before = copy_of(part);
  run(MomentRule::kMuonMomentum, part);
  const at::Tensor g = exact(before.grad) * kClip;
  const at::Tensor m = exact(before.state[0]) * 0.9 + g * 0.1;
  EXPECT_TRUE(close(part.state[0], m));
  EXPECT_TRUE(close(part.grad, m * 0.9 + g * 0.1));
  EXPECT_TRUE(part.master.equal(before.master));
}

TEST_P(EachSize, MuonsSecondPassMovesWeightsByWhatTheGradientHolds) {
  const ShardPart part = make_part(GetParam());
  const ShardPart before = copy_of(part);
  run(MomentRule::kMuonWeights, part);
  EXPECT_TRUE(close(part.master, decayed(before.master) - exact(before.grad) * 0.01));
  EXPECT_TRUE(part.grad.equal(before.grad));
  EXPECT_TRUE(part.state[0].equal(before.state[0]));
}

TEST_P(EachSize, LionMovesEachWeightByTheSignOfItsDirection) {
  const ShardPart part = make_part(GetParam());
  part.grad.narrow(0, 0, 1).zero_();
  part.state[0].narrow(0, 0, 1).zero_();
  const ShardPart before = copy_of(part);
  run(MomentRule::kLion, part);
  const at::Tensor g = exact(before.grad) * kClip;
  const at::Tensor direction = exact(before.state[0]) * 0.9 + g * 0.1;
  EXPECT_TRUE(close(part.master, decayed(before.master) - direction.sign() * 0.01));
  EXPECT_TRUE(close(part.state[0], exact(before.state[0]) * 0.8 + g * 0.2));
}

INSTANTIATE_TEST_SUITE_P(MomentUpdate, EachSize,
                         ::testing::Values(ShardOptions{.numel = 8192}, ShardOptions{.numel = 1001},
                                           ShardOptions{.numel = 514, .offset = 1}));

TEST(MomentUpdate, ASkippedStepWritesNothing) {
  for (const MomentRule rule :
       {MomentRule::kMuonMomentum, MomentRule::kMuonWeights, MomentRule::kLion}) {
    const ShardPart part = make_part({.numel = 512}, /*has_weight=*/true);
    const ShardPart before = copy_of(part);
    run(rule, part, /*skipped=*/1);
    EXPECT_TRUE(part.master.equal(before.master) && part.grad.equal(before.grad) &&
                part.state[0].equal(before.state[0]) && part.weight.equal(before.weight));
  }
}

TEST(MomentUpdate, WritesTheWeightInBFloat16AndItsLargestMagnitude) {
  for (const MomentRule rule : {MomentRule::kMuonWeights, MomentRule::kLion}) {
    ShardPart part = make_part({.numel = 1024}, /*has_weight=*/true);
    part.amax = at::zeros({2}, at::TensorOptions(at::kInt).device(test_device()));
    std::vector<ShardRange> ranges = halves(1024);
    ranges[0].amax = 0;
    ranges[1].amax = 1;
    moment_update(rule, part, ranges, options_with_decay(), {0.01, 1, clip_factor(kClip), skip(0)});
    EXPECT_TRUE(part.weight.equal(part.master.to(at::kBFloat16)));
    const at::Tensor magnitudes = part.weight.to(at::kFloat).abs();
    for (const std::int64_t half : {0, 1}) {
      EXPECT_EQ(part.amax.view(at::kFloat)[half].item<float>(),
                magnitudes.narrow(0, half * 512, 512).max().item<float>());
    }
  }
}

TEST(MomentUpdate, ABFloat16MomentDoesNotDependOnTheParts) {
  const ShardOptions options{.numel = 1024, .grad = at::kBFloat16, .moments = at::kBFloat16};
  for (const MomentRule rule : {MomentRule::kMuonMomentum, MomentRule::kLion}) {
    const ShardPart whole = make_part(options);
    run(rule, whole);
    const ShardPart cut = make_part(options);
    for (const std::int64_t begin : {0, 512}) {
      const ShardPart part{cut.master.narrow(0, begin, 512),
                           cut.grad.narrow(0, begin, 512),
                           {cut.state[0].narrow(0, begin, 512)},
                           cut.master.narrow(0, begin, 512)};
      const ShardRange range{
          .numel = 512,
          .group = begin == 0 ? OptimizerGroup::kDecay : OptimizerGroup::kNoDecay,
          .first_element = begin};
      moment_update(rule, part, std::span(&range, 1), options_with_decay(),
                    {0.01, 1, clip_factor(kClip), skip(0)});
    }
    EXPECT_TRUE(whole.state[0].equal(cut.state[0]));
    EXPECT_TRUE(whole.master.equal(cut.master));
  }
}

TEST(MomentUpdate, ABFloat16MomentIsRightOnAverage) {
  const ShardPart part = make_part({.numel = 1 << 16, .moments = at::kBFloat16});
  part.grad.fill_(1.0);
  part.state[0].fill_(1.0);
  MomentOptions options = options_with_decay();
  options.beta1 = 1 - 1.0 / 4096;
  const ShardRange range{.numel = 1 << 16};
  part.grad.fill_(3.0);
  moment_update(MomentRule::kMuonMomentum, part, std::span(&range, 1), options,
                {0.01, 1, clip_factor(1.0F), skip(0)});
  EXPECT_NEAR(exact(part.state[0]).mean().item<double>(), 1 + 2.0 / 4096, 5e-5);
}

TEST(MomentUpdate, RefusesTensorsAndRangesThatDoNotFit) {
  const auto refuses = [](const ShardPart& part, std::int64_t numel) {
    EXPECT_THROW(moment_update(MomentRule::kLion, part, halves(numel), options_with_decay(),
                               {0.01, 1, clip_factor(1.0F), skip(0)}),
                 Error);
  };
  ShardPart part = make_part({.numel = 512});
  refuses(part, 510);
  part.state.clear();
  refuses(part, 512);
  part = make_part({.numel = 512});
  part.grad = part.grad.narrow(0, 0, 256);
  refuses(part, 512);
}

}  // namespace
}  // namespace packtrain::test
