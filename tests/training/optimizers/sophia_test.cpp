// Sophia's operators against float64.
#include "training/optimizers/sophia.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/random.h"
#include "tests/training/optimizers/sophia_shard.h"
#include "training/optimizers/unclipped.h"

namespace packtrain::test {
namespace {

double largest_difference_of(const at::Tensor& got, const at::Tensor& wanted) {
  return got.numel() == 0 ? 0 : (wide(got) - wanted).abs().max().item<double>();
}

// The header's formulas, in float64.
struct SophiaReference {
  at::Tensor master, exp_avg, hessian;

  explicit SophiaReference(const SophiaTensors& shard)
      : master(wide(shard.master)), exp_avg(wide(shard.exp_avg)), hessian(wide(shard.hessian)) {}

  at::Tensor direction(const SophiaOptions& o) const {
    return exp_avg / at::clamp(hessian * o.gamma, o.epsilon);
  }
  void update(const at::Tensor& grad, const SophiaOptions& o, double clip) {
    exp_avg = exp_avg * o.beta1 + wide(grad) * clip * (1 - o.beta1);
    master = master * (1 - o.learning_rate * o.weight_decay.front()) -
             o.learning_rate * at::clamp(direction(o), -1, 1);
  }
  void update_hessian(const at::Tensor& grad, const SophiaOptions& o, double num_tokens) {
    hessian = hessian * o.beta2 + wide(grad).square() * num_tokens * (1 - o.beta2);
  }
};

struct SophiaCase {
  std::int64_t numel;
  std::int64_t offset;
  at::ScalarType grad;
  at::ScalarType state;
};

class SophiaOperator : public ::testing::TestWithParam<SophiaCase> {};

TEST_P(SophiaOperator, FollowsItsFormulasInFloat64) {
  const auto [numel, offset, grad, state] = GetParam();
  SophiaTensors shard =
      sophia_shard({.numel = numel, .offset = offset, .grad = grad, .moments = state});
  shard.weight =
      at::zeros({numel + offset}, shard.master.options().dtype(at::kBFloat16)).slice(0, offset);
  const SophiaOptions options = sophia_options(7);
  SophiaReference expected(shard);
  expected.update(shard.grad, options, 0.25);
  sophia(shard, one_range(numel), options, clip_factor(0.25F), skip(0));
  expected.update_hessian(shard.grad, options, kTokens);
  sophia_hessian(shard, one_range(numel), options, kTokens, skip(0));
  constexpr double kFewRoundings = 16 * 0x1p-24;
  EXPECT_LT(largest_difference_of(shard.master, expected.master), kFewRoundings);
  EXPECT_TRUE(at::equal(shard.weight, shard.master.to(at::kBFloat16)));
  // Of bfloat16 at most one step, a share of 2^-7.
  const double share = state == at::kFloat ? kFewRoundings : 0x1p-7 * 1.01;
  const double largest = expected.hessian.abs().max().item<double>();
  EXPECT_LT(largest_difference_of(shard.exp_avg, expected.exp_avg), share);
  EXPECT_LT(largest_difference_of(shard.hessian, expected.hessian), share * largest);
}

std::vector<SophiaCase> sophia_cases() {
  std::vector<SophiaCase> list;
  for (const at::ScalarType grad : {at::kFloat, at::kBFloat16}) {
    for (const at::ScalarType state : {at::kFloat, at::kBFloat16}) {
      for (const auto& [numel, offset] :
           {std::pair{1, 0}, {31, 0}, {4096, 0}, {4099, 1}, {4096, 3}, {1000003, 0}}) {
        list.push_back({numel, offset, grad, state});
      }
    }
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Sizes, SophiaOperator, ::testing::ValuesIn(sophia_cases()),
                         [](const auto& info) {
                           const SophiaCase& c = info.param;
                           const auto name = [](at::ScalarType type) {
                             return std::string(type == at::kFloat ? "float32" : "bfloat16");
                           };
                           return std::to_string(c.numel) + "_elements_at_" +
                                  std::to_string(c.offset) + "_" + name(c.grad) + "_gradient_" +
                                  name(c.state) + "_state";
                         });

at::Tensor random_gradient(const char* name, std::int64_t step, std::int64_t numel, double scale) {
  const CounterRandom numbers(5, name, static_cast<std::uint64_t>(step));
  at::Tensor values = at::zeros({numel}, at::kFloat);
  auto* data = values.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < numel; ++i) {
    // Elements of very different curvature.
    const double size = scale * std::pow(10.0, static_cast<double>(i % 7) - 5);
    data[i] = static_cast<float>(size * numbers.normal(static_cast<std::uint64_t>(i)));
  }
  return values.to(test_device());
}

TEST(SophiaSteps, FiftyFollowTheFormulasInFloat64WithAHessianEveryTenth) {
  constexpr std::int64_t kNumel = 1000;
  SophiaTensors shard = sophia_shard({.numel = kNumel});
  shard.exp_avg.zero_();
  shard.hessian.zero_();
  SophiaReference expected(shard);
  for (std::int64_t step = 1; step <= 50; ++step) {
    const SophiaOptions options = sophia_options(step);
    shard.grad = random_gradient("gradient", step, kNumel, 1);
    expected.update(shard.grad, options, 0.5);
    sophia(shard, one_range(kNumel), options, clip_factor(0.5F), skip(0));
    if (step % 10 != 1) continue;
    shard.grad = random_gradient("of samples", step, kNumel, 0.1);
    expected.update_hessian(shard.grad, options, kTokens);
    sophia_hessian(shard, one_range(kNumel), options, kTokens, skip(0));
  }
  EXPECT_LT(largest_difference_of(shard.master, expected.master), 1e-5);
  EXPECT_LT(
      ((wide(shard.hessian) - expected.hessian) / expected.hessian).abs().max().item<double>(),
      1e-6);
  // The last steps were neither all clipped nor all free.
  const at::Tensor last = expected.direction(sophia_options(50)).abs();
  const double free = last.lt(1).to(at::kDouble).mean().item<double>();
  EXPECT_GT(free, 0.1);
  EXPECT_LT(free, 0.9);
}

TEST(SophiaStep, CountsTheElementsThatItDoesNotClip) {
  SophiaTensors shard = sophia_shard({.numel = 100003});
  shard.num_unclipped =
      at::zeros({kUnclippedCounters}, at::TensorOptions(at::kInt).device(test_device()));
  SophiaReference expected(shard);
  const SophiaOptions options = sophia_options(1);
  expected.update(shard.grad, options, 1);
  const auto want = expected.direction(options).abs().lt(1).sum().item<std::int64_t>();
  sophia(shard, one_range(100003), options, clip_factor(1), skip(0));
  // An element whose direction is 1 may be rounded to either side.
  EXPECT_NEAR(static_cast<double>(shard.num_unclipped.sum().item<std::int64_t>()),
              static_cast<double>(want), 2);
  EXPECT_GT(want, 1000);
  EXPECT_LT(want, 99000);
}

TEST(SophiaStep, MovesByTheLearningRateWhereThereIsNoHessianYet) {
  SophiaTensors shard = sophia_shard({.numel = 4096});
  shard.hessian.zero_();
  const at::Tensor before = wide(shard.master);
  SophiaOptions options = sophia_options(1);
  options.weight_decay = {};
  sophia(shard, one_range(4096), options, clip_factor(1), skip(0));
  const at::Tensor moved = (wide(shard.master) - before).abs();
  EXPECT_LT((moved - 3e-3).abs().max().item<double>(), 1e-7);
}

TEST(SophiaStep, SkipLeavesEveryBitAsItWas) {
  for (const at::ScalarType state : {at::kFloat, at::kBFloat16}) {
    const ShardOptions numbers{.numel = 4104, .moments = state};
    SophiaTensors shard = sophia_shard(numbers);
    shard.grad.fill_(std::nan(""));
    shard.weight = at::full_like(shard.master, 9.0, at::kBFloat16);
    sophia(shard, one_range(4104), sophia_options(1), clip_factor(std::nanf("")), skip(1));
    sophia_hessian(shard, one_range(4104), sophia_options(1), kTokens, skip(1));
    const SophiaTensors before = sophia_shard(numbers);
    EXPECT_TRUE(at::equal(shard.master, before.master));
    EXPECT_TRUE(at::equal(shard.exp_avg, before.exp_avg));
    EXPECT_TRUE(at::equal(shard.hessian, before.hessian));
    EXPECT_TRUE(at::equal(shard.weight, at::full_like(shard.weight, 9.0)));
  }
}

// Ranges of one call against calls of one range each.
TEST(SophiaStep, OneCallEqualsItsSlices) {
  std::vector<std::int64_t> many;
  for (std::int64_t k = 1; k <= 300; ++k) many.push_back(64 * k);  // more than one launch takes
  for (const at::ScalarType state : {at::kFloat, at::kBFloat16}) {
    for (const auto& ends : {std::vector<std::int64_t>{1, 2048, 2051, 5000}, many}) {
      const ShardOptions numbers{.numel = ends.back(), .moments = state};
      const SophiaTensors whole = sophia_shard(numbers);
      const SophiaTensors parts = sophia_shard(numbers);
      std::vector<ShardRange> ranges;
      std::int64_t begin = 0;
      for (const std::int64_t end : ends) {
        const std::int64_t first = 7 * begin + 16;  // as another rank's elements are numbered
        ranges.push_back({.begin = begin, .numel = end - begin, .first_element = first});
        const std::vector<ShardRange> alone = {{.numel = end - begin, .first_element = first}};
        const auto part = [&](const at::Tensor& t) { return t.slice(0, begin, end); };
        const SophiaTensors slice{
            part(parts.master), part(parts.grad), part(parts.exp_avg), part(parts.hessian), {}};
        sophia(slice, alone, sophia_options(2), clip_factor(0.5F), skip(0));
        sophia_hessian(slice, alone, sophia_options(2), kTokens, skip(0));
        begin = end;
      }
      sophia(whole, ranges, sophia_options(2), clip_factor(0.5F), skip(0));
      sophia_hessian(whole, ranges, sophia_options(2), kTokens, skip(0));
      EXPECT_TRUE(at::equal(whole.master, parts.master));
      EXPECT_TRUE(at::equal(whole.exp_avg, parts.exp_avg));
      EXPECT_TRUE(at::equal(whole.hessian, parts.hessian));
    }
  }
}

TEST(SophiaStep, RefusesTensorsAndRangesThatDoNotFit) {
  const SophiaTensors shard = sophia_shard({.numel = 8});
  const auto refuses = [&](auto&& change) {
    SophiaTensors changed = shard;
    change(changed);
    EXPECT_THROW(sophia(changed, one_range(8), sophia_options(1), clip_factor(1), skip(0)), Error);
    EXPECT_THROW(sophia_hessian(changed, one_range(8), sophia_options(1), kTokens, skip(0)), Error);
  };
  refuses([](SophiaTensors& t) { t.grad = t.grad.slice(0, 1); });
  refuses([](SophiaTensors& t) { t.grad = at::Tensor(); });
  refuses([](SophiaTensors& t) { t.hessian = t.hessian.to(at::kBFloat16); });
  refuses([](SophiaTensors& t) { t.weight = t.master.clone(); });
  refuses([](SophiaTensors& t) { t.num_unclipped = at::zeros({1}, at::kInt); });
  const std::vector<ShardRange> gap = {{.begin = 0, .numel = 4}, {.begin = 5, .numel = 3}};
  EXPECT_THROW(sophia(shard, gap, sophia_options(1), clip_factor(1), skip(0)), Error);
}

}  // namespace
}  // namespace packtrain::test
