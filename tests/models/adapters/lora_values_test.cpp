// Initial values of an adapter.
#include "models/adapters/lora_values.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace packtrain {
namespace {

constexpr std::int64_t kInputs = 64;

AdapterTargets targets_with(LoraModules modules) {
  AdapterTargets targets;
  targets.weights["w.weight"] = std::move(modules);
  return targets;
}

at::Tensor values_of(const AdapterTargets& targets, std::int64_t begin, std::int64_t numel) {
  const std::int64_t rank = total_rank(targets.weights.at("w.weight"));
  const at::Tensor values = at::empty({numel}, at::kFloat);
  initialize_adapter(targets, {"w.lora_A", {rank, kInputs}}, 3, begin, values);
  return values;
}

TEST(LoraValues, AModuleHasTheSameValuesWithAnyOthers) {
  const LoraModule q{"q", 0, 8, 4, 1};
  const LoraModule v{"v", 8, 8, 2, 1};
  const at::Tensor both = values_of(targets_with({q, v}), 0, 6 * kInputs);
  const at::Tensor q_alone = values_of(targets_with({q}), 0, 4 * kInputs);
  const at::Tensor v_alone = values_of(targets_with({v}), 0, 2 * kInputs);
  EXPECT_TRUE(at::cat({q_alone, v_alone}).equal(both));
}

TEST(LoraValues, OfSeveralAdaptersAreThoseOfEachAlone) {
  AdapterTargets several;
  for (const char* name : {"de", "fr"}) {
    several.several.push_back(targets_with({{"q", 0, 8, 4, 1}}));
    several.several.back().name = name;
  }
  const auto values = [&](const AdapterTargets& targets, const std::string& name) {
    const at::Tensor filled = at::empty({4 * kInputs}, at::kFloat);
    initialize_adapter(targets, {"w.lora_A." + name, {4, kInputs}}, 3, 0, filled);
    return filled;
  };
  EXPECT_TRUE(values(several, "de").equal(values(several.several[0], "de")));
  EXPECT_TRUE(values(several, "fr").equal(values(several.several[1], "fr")));
  EXPECT_FALSE(values(several, "de").equal(values(several, "fr")));
}

TEST(LoraValues, RangesAreThoseOfTheWhole) {
  const AdapterTargets targets = targets_with({{"q", 0, 8, 4, 1}, {"v", 8, 8, 2, 1}});
  const at::Tensor whole = values_of(targets, 0, 6 * kInputs);
  EXPECT_TRUE(values_of(targets, 200, 100).equal(whole.narrow(0, 200, 100)));
}

TEST(LoraValues, TheDefaultIsUniformWithinTheRootOfTheInputs) {
  const at::Tensor a = values_of(targets_with({{"q", 0, 8, 256, 1}}), 0, 256 * kInputs);
  const double bound = 1 / std::sqrt(static_cast<double>(kInputs));
  EXPECT_LE(a.abs().max().item<double>(), bound);
  EXPECT_GT(a.abs().max().item<double>(), 0.99 * bound);
  EXPECT_NEAR(a.std().item<double>(), bound / std::sqrt(3.0), 0.01 * bound);
}

TEST(LoraValues, AGaussianDependsOnTheRankOfEachModule) {
  AdapterTargets targets = targets_with({{"q", 0, 8, 64, 1}, {"v", 8, 8, 16, 1}});
  targets.initialization = LoraInitialization::kGaussian;
  const at::Tensor a = values_of(targets, 0, 80 * kInputs);
  EXPECT_NEAR(a.narrow(0, 0, 64 * kInputs).std().item<double>(), 1.0 / 64, 0.05 / 64);
  EXPECT_NEAR(a.narrow(0, 64 * kInputs, 16 * kInputs).std().item<double>(), 1.0 / 16, 0.1 / 16);
}

TEST(LoraValues, EachExpertHasItsOwn) {
  const AdapterTargets targets = targets_with({{"experts", 0, 8, 4, 1}});
  const at::Tensor whole = at::empty({3 * 4 * kInputs}, at::kFloat);
  const ParameterSpec spec{"w.lora_A", {3, 4, kInputs}};
  initialize_adapter(targets, spec, 3, 0, whole);
  const at::Tensor part = at::empty({5 * kInputs}, at::kFloat);
  initialize_adapter(targets, spec, 3, 6 * kInputs, part);
  EXPECT_TRUE(part.equal(whole.narrow(0, 6 * kInputs, 5 * kInputs)));
  EXPECT_GT(whole.abs().min().item<double>(), 0);
  EXPECT_FALSE(whole.narrow(0, 0, 4 * kInputs).equal(whole.narrow(0, 4 * kInputs, 4 * kInputs)));
}

TEST(LoraValues, TheSecondMatrixIsZero) {
  const at::Tensor values = at::full({32}, 1.0, at::kFloat);
  initialize_adapter(targets_with({{"q", 0, 8, 4, 1}}), {"w.q.lora_B", {8, 4}}, 3, 0, values);
  EXPECT_EQ(values.abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace packtrain
