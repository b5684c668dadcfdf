// The largest magnitudes that AdamW finds in the weights which it writes, against a pass over them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "framework/core/error.h"
#include "tests/training/optimizers/shard.h"

namespace packtrain::test {
namespace {

// Bits of float32, as of AdamWTensors::amax.
std::int32_t amax_of(const at::Tensor& values) {
  return values.abs().max().to(at::kFloat).view(at::kInt).item<std::int32_t>();
}

at::Tensor no_amax(std::int64_t count) {
  return at::zeros({count}, at::TensorOptions(at::kInt).device(test_device()));
}

AdamWTensors shard_with_weight(std::int64_t numel, std::int64_t offset, bool is_rounded) {
  AdamWTensors shard = make_shard({.numel = numel, .offset = offset});
  shard.weight = is_rounded ? at::zeros_like(shard.master, at::kBFloat16) : shard.master;
  return shard;
}

struct Weight {
  std::int64_t end;  // in the shard
  int amax;
};

// Numbers of weights in another order than in the shard, and a range without one.
void expect_amax(std::int64_t offset, bool is_rounded, const std::vector<Weight>& weights) {
  AdamWTensors shard = shard_with_weight(weights.back().end, offset, is_rounded);
  shard.amax = no_amax(std::ssize(weights) + 1);
  std::vector<ShardRange> ranges;
  std::int64_t begin = 0;
  for (const auto& [end, amax] : weights) {
    ranges.push_back({.begin = begin, .numel = end - begin, .first_element = begin, .amax = amax});
    begin = end;
  }
  adamw(shard, ranges, options_of_step(2), clip_factor(1), skip(0));
  std::vector<std::int32_t> want(weights.size() + 1, 0);
  for (const ShardRange& range : ranges) {
    if (range.amax < 0) continue;
    want[static_cast<std::size_t>(range.amax)] =
        amax_of(shard.weight.narrow(0, range.begin, range.numel));
  }
  EXPECT_TRUE(at::equal(shard.amax.cpu(), at::tensor(want, at::kInt)))
      << offset << " " << is_rounded << ": " << shard.amax;
}

TEST(AdamWAmax, OfEachWeightIsThatOfAPassOverIt) {
  for (const bool is_rounded : {true, false}) {
    for (const std::int64_t offset : {0, 1}) {
      expect_amax(offset, is_rounded, {{1, 0}});
      expect_amax(offset, is_rounded, {{256, 1}, {70000, 0}, {70128, -1}, {1000000, 2}});
      expect_amax(offset, is_rounded, {{3, 1}, {31, 0}, {4099, 2}});
    }
  }
}

TEST(AdamWAmax, OfMoreWeightsThanOneLaunchTakes) {
  std::vector<Weight> weights;
  for (int w = 0; w < 300; ++w) weights.push_back({256 * (w + 1), 299 - w});
  expect_amax(0, /*is_rounded=*/true, weights);
}

TEST(AdamWAmax, IsTheLargerOneOfWhatWasThere) {
  AdamWTensors shard = shard_with_weight(512, 0, true);
  shard.amax = no_amax(2);
  shard.amax[1].fill_(0x42000000);
  const std::vector<ShardRange> ranges = {{.begin = 0, .numel = 256, .amax = 0},
                                          {.begin = 256, .numel = 256, .amax = 1}};
  adamw(shard, ranges, options_of_step(1), clip_factor(1), skip(0));
  EXPECT_EQ(shard.amax[0].item<std::int32_t>(), amax_of(shard.weight.narrow(0, 0, 256)));
  EXPECT_EQ(shard.amax[1].item<std::int32_t>(), 0x42000000);
}

TEST(AdamWAmax, OfASkippedStepStaysAsItWas) {
  AdamWTensors shard = shard_with_weight(512, 0, true);
  shard.amax = no_amax(1);
  const std::vector<ShardRange> ranges = {{.begin = 0, .numel = 512, .amax = 0}};
  adamw(shard, ranges, options_of_step(1), clip_factor(1), skip(1));
  EXPECT_EQ(shard.amax[0].item<std::int32_t>(), 0);
}

TEST(AdamWAmax, OfAWeightThatIsNotFiniteIsNotFiniteEither) {
  constexpr std::int32_t kInfinity = 0x7F800000;
  for (const float wrong : {std::nanf(""), 3.4e38F}) {  // the second one is infinite in bfloat16
    AdamWTensors shard = shard_with_weight(4096, 0, true);
    shard.master[1234] = wrong;
    shard.amax = no_amax(1);
    const std::vector<ShardRange> ranges = {{.begin = 0, .numel = 4096, .amax = 0}};
    AdamWOptions options = options_of_step(1);
    options.weight_decay = {};
    adamw(shard, ranges, options, clip_factor(1), skip(0));
    EXPECT_GE(shard.amax[0].item<std::int32_t>(), kInfinity) << wrong;
  }
}

TEST(AdamWAmax, WithoutMemoryForItIsRefused) {
  AdamWTensors shard = shard_with_weight(512, 0, true);
  const std::vector<ShardRange> ranges = {{.begin = 0, .numel = 512, .amax = 1}};
  const auto refuses = [&](const at::Tensor& amax) {
    shard.amax = amax;
    EXPECT_THROW(adamw(shard, ranges, options_of_step(1), clip_factor(1), skip(0)), Error);
  };
  refuses({});
  refuses(no_amax(1));
  refuses(no_amax(2).to(at::kFloat));
}

}  // namespace
}  // namespace packtrain::test
