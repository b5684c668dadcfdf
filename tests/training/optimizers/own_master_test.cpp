// Every optimizer with bfloat16 weights that are their own masters (precision.master: bf16).
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/training/optimizers/shard.h"
#include "training/optimizers/optimizer.h"
#include "training/optimizers/stochastic_rounding.h"

namespace packtrain::test::own_master {
namespace {

constexpr std::int64_t kNumel = 8192;
constexpr std::uint64_t kSeed = 11;
constexpr double kSpacing = 0x1p-7;  // of bfloat16 numbers from 1 to 2; below 1 half of it

struct Updated {
  const char* name;
  Moments moments;
};

OptimizerSection section_of(const Updated& updated) {
  OptimizerSection section;
  section.name = updated.name;
  section.moments = updated.moments;
  section.weight_decay = 0.1;
  return section;
}

at::Tensor on_device(const at::Tensor& x) {
  return x.to(test_device());
}

// A part whose state is zeros, with the numbers `weights`.
ShardPart part_of(const Optimizer& optimizer, const at::Tensor& weights, const at::Tensor& grad,
                  at::ScalarType master) {
  ShardPart part;
  part.master = on_device(weights).to(master, /*non_blocking=*/false, /*copy=*/true);
  part.weight = part.master;
  part.grad = on_device(grad).clone();
  for (const OptimizerStateSpec& spec : optimizer.state()) {
    part.state.push_back(
        on_device(at::zeros({state_values(spec, weights.numel())}, at::TensorOptions(spec.dtype))));
  }
  return part;
}

UpdateOptions options_at(std::int64_t step, double learning_rate, int skipped = 0) {
  return {learning_rate, step, clip_factor(1.0F), skip(skipped)};
}

void update_all(const Optimizer& optimizer, const ShardPart& part, const UpdateOptions& options) {
  const ShardRange range{.numel = part.master.numel()};
  optimizer.update(part, std::span(&range, 1), options);
}

at::Tensor exact(const at::Tensor& x) {
  return x.to(at::kCPU, at::kDouble);
}

// bfloat16 numbers.
at::Tensor some_weights(std::int64_t numel) {
  return at::randn({numel}, at::kFloat).mul(0.02).to(at::kBFloat16).to(at::kFloat);
}

class OwnMaster : public ::testing::TestWithParam<Updated> {
 protected:
  std::unique_ptr<Optimizer> optimizer_ = make_optimizer(section_of(GetParam()), kSeed);
};

// A 16th of the distance between two numbers. Rounding to the nearest one would lose all of it.
TEST_P(OwnMaster, MovesByTheUpdateOnAverage) {
  constexpr std::int64_t kMany = 1 << 18;
  const at::Tensor ones = at::full({kMany}, 1.25, at::kFloat);
  const at::Tensor grad = at::full({kMany}, 0.5, at::kFloat);
  const ShardPart wide = part_of(*optimizer_, ones, grad, at::kFloat);
  const ShardPart narrow = part_of(*optimizer_, ones, grad, at::kBFloat16);
  const bool is_scaled = std::string(GetParam().name) == "muon";  // its step is the gradient
  const double learning_rate = kSpacing / 16 * (is_scaled ? 2 : 1);
  update_all(*optimizer_, wide, options_at(1, learning_rate));
  update_all(*optimizer_, narrow, options_at(1, learning_rate));
  const double wanted = exact(wide.master).mean().item<double>();
  ASSERT_GT(std::abs(wanted - 1.25), kSpacing / 20);
  ASSERT_TRUE(wide.master.to(at::kBFloat16).eq(1.25).all().item<bool>());
  // The standard error is a quarter of the distance at most, divided by the root of the number.
  EXPECT_NEAR(exact(narrow.master).mean().item<double>(), wanted, 5 * kSpacing / 4 / 512);
}

TEST_P(OwnMaster, IsOneOfTheTwoNumbersNextToTheUpdatedOne) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor weights = some_weights(kNumel);
    const at::Tensor grad = at::randn({kNumel}, at::kFloat).to(type);
    const ShardPart wide = part_of(*optimizer_, weights, grad, at::kFloat);
    const ShardPart narrow = part_of(*optimizer_, weights, grad, at::kBFloat16);
    update_all(*optimizer_, wide, options_at(1, 1e-3));
    update_all(*optimizer_, narrow, options_at(1, 1e-3));
    const at::Tensor bits = wide.master.view(at::kInt).bitwise_and(-0x10000);
    const at::Tensor below = bits.view(at::kFloat);
    const at::Tensor above = (bits + 0x10000).view(at::kFloat);
    const at::Tensor found = narrow.master.to(at::kFloat);
    const at::Tensor is_exact = below.eq(wide.master);
    EXPECT_TRUE((found.eq(below) | (found.eq(above) & ~is_exact)).all().item<bool>());
    EXPECT_TRUE(found.eq(above).any().item<bool>() && found.eq(below).any().item<bool>());
  }
}

TEST_P(OwnMaster, HasTheStateOfAFloat32Master) {
  const at::Tensor weights = some_weights(kNumel);
  const at::Tensor grad = at::randn({kNumel}, at::kFloat);
  const ShardPart wide = part_of(*optimizer_, weights, grad, at::kFloat);
  const ShardPart narrow = part_of(*optimizer_, weights, grad, at::kBFloat16);
  update_all(*optimizer_, wide, options_at(3, 1e-3));
  update_all(*optimizer_, narrow, options_at(3, 1e-3));
  for (std::size_t s = 0; s < wide.state.size(); ++s) {
    EXPECT_TRUE(wide.state[s].equal(narrow.state[s])) << s;
  }
}

// Ranks own parts of the elements. Blocks of 8-bit moments are not cut.
TEST_P(OwnMaster, HasTheBitsOfTheWholeInEachPart) {
  const std::vector<OptimizerStateSpec> specs = optimizer_->state();
  const ShardPart whole =
      part_of(*optimizer_, some_weights(kNumel), at::randn({kNumel}, at::kFloat), at::kBFloat16);
  const at::Tensor before = whole.master.clone();
  const bool has_blocks = GetParam().moments == Moments::kInt8;
  const std::vector<std::int64_t> ends =
      has_blocks ? std::vector<std::int64_t>{512, 3072, kNumel}
                 : std::vector<std::int64_t>{1, 6, 512, 515, 4611, 4616, kNumel};
  std::vector<at::Tensor> found;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const ShardPart part = part_of(*optimizer_, before.narrow(0, begin, end - begin),
                                   whole.grad.narrow(0, begin, end - begin), at::kBFloat16);
    const ShardRange range{.numel = end - begin, .first_element = begin};
    for (std::int64_t step = 1; step <= 2; ++step) {
      optimizer_->update(part, std::span(&range, 1), options_at(step, 1e-3));
    }
    found.push_back(part.master);
    begin = end;
  }
  for (std::int64_t step = 1; step <= 2; ++step) {
    update_all(*optimizer_, whole, options_at(step, 1e-3));
  }
  EXPECT_TRUE(whole.master.equal(at::cat(found)));
  EXPECT_FALSE(whole.master.equal(before));
}

TEST_P(OwnMaster, EntersTheLargestMagnitudeAsWritten) {
  ShardPart part =
      part_of(*optimizer_, some_weights(1280), at::randn({1280}, at::kFloat), at::kBFloat16);
  part.amax = on_device(at::zeros({2}, at::kInt));
  const std::vector<ShardRange> ranges = {
      {.numel = 512, .amax = 0}, {.begin = 512, .numel = 768, .first_element = 512, .amax = 1}};
  optimizer_->update(part, ranges, options_at(1, 1e-2));
  const at::Tensor magnitudes = part.master.to(at::kFloat).abs();
  for (const auto& range : ranges) {
    EXPECT_EQ(part.amax.view(at::kFloat)[range.amax].item<float>(),
              magnitudes.narrow(0, range.begin, range.numel).max().item<float>());
  }
}

TEST_P(OwnMaster, StaysAsItIsInASkippedStepAndAtARateOfZero) {
  const at::Tensor weights = some_weights(kNumel);
  const at::Tensor grad = at::randn({kNumel}, at::kFloat);
  const ShardPart part = part_of(*optimizer_, weights, grad, at::kBFloat16);
  update_all(*optimizer_, part, options_at(1, 1e-2, /*skipped=*/1));
  EXPECT_TRUE(exact(part.master).equal(exact(weights)));
  update_all(*optimizer_, part, options_at(1, 0));
  EXPECT_TRUE(exact(part.master).equal(exact(weights)));
}

TEST_P(OwnMaster, AnotherWeightThanTheMasterIsRefused) {
  ShardPart part =
      part_of(*optimizer_, some_weights(512), at::randn({512}, at::kFloat), at::kBFloat16);
  part.weight = part.master.clone();
  EXPECT_THROW(update_all(*optimizer_, part, options_at(1, 1e-2)), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, OwnMaster,
    ::testing::Values(Updated{"adamw", Moments::kFloat32}, Updated{"adamw", Moments::kBFloat16},
                      Updated{"adamw", Moments::kInt8}, Updated{"muon", Moments::kFloat32},
                      Updated{"lion", Moments::kFloat32}, Updated{"lion", Moments::kBFloat16},
                      Updated{"sophia", Moments::kFloat32}, Updated{"sophia", Moments::kBFloat16}));

TEST(MasterRandom, GivesEachElementBitsOfItsOwn) {
  const RandomWords random{{0x00020001, 0x00040003, 0x00060005, 0x00080007}};
  for (std::int64_t place = 0; place < 8; ++place) {
    EXPECT_EQ(master_bits(random, place) & 0xFFFF, place + 1);
  }
}

TEST(MasterRandom, HasOtherBitsThanMoments) {
  for (std::int64_t group = 0; group < 1000; ++group) {
    const RandomWords masters = master_random(kSeed, 5, group);
    const RandomWords moments = moment_random(kSeed, 5, group);
    EXPECT_NE(masters.values[0], moments.values[0]) << group;
    EXPECT_NE(masters.values[0], moment_random(kSeed, 5, 2 * group).values[0]) << group;
  }
}

}  // namespace
}  // namespace packtrain::test::own_master
