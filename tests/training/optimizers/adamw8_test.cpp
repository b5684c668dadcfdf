// AdamW with 8-bit moments, against AdamW on the numbers that the codes stand for.
#include "training/optimizers/adamw8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"
#include "tests/training/optimizers/shard.h"
#include "training/optimizers/dynamic_map.h"

namespace packtrain::test {
namespace {

std::int64_t blocks_of(std::int64_t numel) {
  return (numel + kMomentBlock - 1) / kMomentBlock;
}

ShardPart make_part8(const ShardOptions& options, bool has_weight = false) {
  const AdamWTensors shard = make_shard(options);
  const auto on_device = at::TensorOptions().device(test_device());
  ShardPart part{shard.master, shard.grad, {}, shard.master};
  for (int moment = 0; moment < 2; ++moment) {
    part.state.push_back(at::zeros({options.numel}, on_device.dtype(at::kByte)));
    part.state.push_back(at::zeros({blocks_of(options.numel)}, on_device.dtype(at::kFloat)));
  }
  if (has_weight) part.weight = shard.master.to(at::kBFloat16);
  return part;
}

void step8(const ShardPart& part, std::int64_t step, int skipped = 0) {
  const ShardRange range{.numel = part.master.numel()};
  adamw8(part, std::span(&range, 1), options_of_step(step), clip_factor(0.5F), skip(skipped));
}

// The numbers of a moment's codes.
at::Tensor decoded(const ShardPart& part, std::size_t moment) {
  const DynamicMap map = dynamic_map(/*has_sign=*/moment == 0);
  const at::Tensor codes = part.state[2 * moment].cpu();
  const at::Tensor largest = part.state[2 * moment + 1].cpu();
  at::Tensor values = at::empty({codes.numel()}, at::kFloat);
  for (std::int64_t i = 0; i < codes.numel(); ++i) {
    values.mutable_data_ptr<float>()[i] = map[codes.const_data_ptr<std::uint8_t>()[i]] *
                                          largest.const_data_ptr<float>()[i / kMomentBlock];
  }
  return values;
}

class EachPart8 : public ::testing::TestWithParam<ShardOptions> {};

// Both read the same moments, so the weights are those of AdamW.
TEST_P(EachPart8, MovesWeightsAsAdamWWithTheMomentsOfItsCodes) {
  const ShardPart part = make_part8(GetParam());
  for (std::int64_t step = 1; step <= 3; ++step) {
    AdamWTensors exact{part.master.clone(),
                       part.grad,
                       decoded(part, 0).to(test_device()),
                       decoded(part, 1).to(test_device()),
                       {}};
    step8(part, step);
    adamw_all(exact, options_of_step(step), 0.5F);
    EXPECT_TRUE(at::allclose(part.master, exact.master, 1e-5, 1e-7)) << step;
    // Codes are at most half a step from the moments: 0.45 of 64 in the highest decade.
    for (const std::size_t moment : {0U, 1U}) {
      const at::Tensor found = decoded(part, moment);
      const at::Tensor wanted = (moment == 0 ? exact.exp_avg : exact.exp_avg_sq).cpu();
      const at::Tensor largest = part.state[2 * moment + 1].cpu().repeat_interleave(kMomentBlock);
      const at::Tensor error = (found - wanted).abs();
      const at::Tensor bound = largest.narrow(0, 0, error.numel()) * 0.0079;
      EXPECT_TRUE(error.le(bound).all().item<bool>()) << "moment " << moment;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AdamW8, EachPart8,
                         ::testing::Values(ShardOptions{.numel = 8192},
                                           ShardOptions{.numel = 8192, .grad = at::kBFloat16},
                                           ShardOptions{.numel = 1001},
                                           // A warp has two blocks, and one has a part.
                                           ShardOptions{.numel = 4500001, .grad = at::kBFloat16},
                                           ShardOptions{.numel = 770, .offset = 1}));

TEST(AdamW8, APartOfBlocksHasTheBitsOfTheWhole) {
  const ShardPart whole = make_part8({.numel = 4096});
  const ShardPart cut = make_part8({.numel = 4096});
  for (std::int64_t step = 1; step <= 3; ++step) {
    step8(whole, step);
    for (const auto& [begin, numel] :
         {std::pair<std::int64_t, std::int64_t>{0, 768}, {768, 3328}}) {
      const auto of = [&, b = begin, n = numel](const at::Tensor& x, std::int64_t block = 1) {
        return x.narrow(0, b / block, n / block);
      };
      step8({of(cut.master),
             of(cut.grad),
             {of(cut.state[0]), of(cut.state[1], kMomentBlock), of(cut.state[2]),
              of(cut.state[3], kMomentBlock)},
             of(cut.master)},
            step);
    }
  }
  EXPECT_TRUE(whole.master.equal(cut.master));
  for (std::size_t s = 0; s < 4; ++s) EXPECT_TRUE(whole.state[s].equal(cut.state[s])) << s;
}

TEST(AdamW8, ASkippedStepWritesNothing) {
  const ShardPart part = make_part8({.numel = 1024});
  step8(part, 1);
  const at::Tensor master = part.master.clone();
  const at::Tensor codes = part.state[0].clone();
  step8(part, 2, /*skipped=*/1);
  EXPECT_TRUE(part.master.equal(master));
  EXPECT_TRUE(part.state[0].equal(codes));
}

TEST(AdamW8, WritesTheWeightAndItsLargestMagnitude) {
  ShardPart part = make_part8({.numel = 1280}, /*has_weight=*/true);
  part.amax = at::zeros({1}, at::TensorOptions(at::kInt).device(test_device()));
  const ShardRange range{.numel = 1280, .amax = 0};
  adamw8(part, std::span(&range, 1), options_of_step(1), clip_factor(1.0F), skip(0));
  EXPECT_TRUE(part.weight.equal(part.master.to(at::kBFloat16)));
  EXPECT_EQ(part.amax.view(at::kFloat)[0].item<float>(),
            part.weight.to(at::kFloat).abs().max().item<float>());
}

TEST(AdamW8, RefusesRangesThatCutABlock) {
  const ShardPart part = make_part8({.numel = 1024});
  const std::vector<ShardRange> ranges = {
      {.numel = 128}, {.begin = 128, .numel = 896, .group = OptimizerGroup::kNoDecay}};
  EXPECT_THROW(adamw8(part, ranges, options_of_step(1), clip_factor(1.0F), skip(0)), Error);
}

}  // namespace
}  // namespace packtrain::test
