// Which settings of the optimizer a parameter has, and the state of all of them.
#include "training/optimizers/parameter_groups.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "training/optimizers/optimizer.h"

namespace packtrain {
namespace {

class NamedBlock final : public Block {
 public:
  explicit NamedBlock(std::vector<ParameterSpec> parameters) : parameters_(std::move(parameters)) {}

  BlockOutput forward(std::span<const Parameter>, const BlockContext&,
                      const at::Tensor&) const override {
    return {};
  }
  at::Tensor backward(std::span<const Parameter>, const BlockContext&, std::unique_ptr<Tape>,
                      const at::Tensor&) const override {
    return {};
  }
  const std::string& name() const override { return name_; }
  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }

 private:
  std::string name_ = "block";
  std::vector<ParameterSpec> parameters_;
};

// A block of the named parameters with their numbers.
std::vector<std::unique_ptr<Block>> block_of(const ParameterGroups& groups,
                                             std::vector<ParameterSpec> parameters) {
  for (ParameterSpec& parameter : parameters) parameter.optimizer = groups.of(parameter, true);
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::make_unique<NamedBlock>(std::move(parameters)));
  return blocks;
}

ParameterSpec named(const std::string& name, bool trainable = true) {
  return {.name = name, .shape = {8, 8}, .trainable = trainable};
}

OptimizerSection two_groups() {
  OptimizerSection section;
  section.learning_rate = 1e-3;
  section.weight_decay = 0.1;
  section.groups = {{.match = "*.norm.*", .weight_decay = 0.5},
                    {.match = "a.*", .learning_rate = 2e-3}};
  return section;
}

TEST(ParameterGroups, TheFirstPatternThatMatchesCounts) {
  const ParameterGroups groups(two_groups());
  EXPECT_EQ(groups.of(named("b.weight"), true), 0);
  EXPECT_EQ(groups.of(named("a.norm.weight"), true), 1);
  EXPECT_EQ(groups.of(named("a.weight"), true), 2);
}

TEST(ParameterGroups, AGroupHasTheSectionsSettingsButItsOwn) {
  const ParameterGroups groups(two_groups());
  EXPECT_EQ(groups.settings(1).learning_rate, 1e-3);
  EXPECT_EQ(groups.settings(2).weight_decay, 0.1);
  EXPECT_EQ(groups.rate_ratio(0), 1);
  EXPECT_EQ(groups.rate_ratio(1), 1);
  EXPECT_EQ(groups.rate_ratio(2), 2);
}

TEST(ParameterGroups, ADecayOfAGroupIsThatOfNormsToo) {
  const ParameterGroups groups(two_groups());
  EXPECT_EQ(weight_decays(groups.settings(0)), (std::array{0.1, 0.0}));
  EXPECT_EQ(weight_decays(groups.settings(1)), (std::array{0.5, 0.5}));
  EXPECT_EQ(weight_decays(groups.settings(2)), (std::array{0.1, 0.0}));
}

TEST(ParameterGroups, StateThatAllHaveIsOfAllNumbers) {
  const std::vector<OptimizerStateSpec> state = ParameterGroups(two_groups()).state();
  ASSERT_EQ(state.size(), 2U);
  EXPECT_TRUE(state[0].optimizers.empty());
  EXPECT_EQ(state[1].name, "exp_avg_sq");
}

TEST(ParameterGroups, AGroupOfNoTrainedParameterIsRefused) {
  const ParameterGroups groups(two_groups());
  groups.check(block_of(groups, {named("a.norm.weight"), named("a.weight")}));
  EXPECT_THROW(groups.check(block_of(groups, {named("a.norm.weight")})), Error);
  EXPECT_THROW(groups.check(block_of(groups, {named("a.norm.weight"), named("a.weight", false)})),
               Error);
}

OptimizerSection muon() {
  OptimizerSection section;
  section.name = "muon";
  return section;
}

TEST(MuonGroups, MatricesOfLayersAreMuonsAndTheRestIsAdamWs) {
  const ParameterGroups groups(muon());
  const auto name_of = [&](const ParameterSpec& parameter, bool in_layer) {
    return groups.settings(groups.of(parameter, in_layer)).name;
  };
  EXPECT_EQ(name_of(named("layers.0.mlp.down.weight"), true), "muon");
  EXPECT_EQ(name_of({.name = "experts", .shape = {2, 8, 8}}, true), "muon");
  EXPECT_EQ(name_of(named("embed.weight"), false), "adamw");
  EXPECT_EQ(name_of({.name = "norm", .shape = {8}}, true), "adamw");
  EXPECT_EQ(name_of({.name = "lora_A", .shape = {8, 8}, .in_adapter = true}, true), "adamw");
}

TEST(MuonGroups, AGroupThatNamesMuonHasAllItsMatrices) {
  OptimizerSection section;
  section.groups = {{.match = "*", .name = "muon"}};
  const ParameterGroups groups(section);
  for (const ParameterSpec& spec :
       {named("embed.weight"), ParameterSpec{.name = "a", .shape = {8, 8}, .in_adapter = true}}) {
    EXPECT_TRUE(groups.orthogonalises(groups.of(spec, false))) << spec.name;
  }
  EXPECT_FALSE(groups.orthogonalises(groups.of({.name = "norm", .shape = {8}}, true)));
}

TEST(MuonGroups, EachTensorOfTheStateIsOfThoseThatNeedIt) {
  const ParameterGroups groups(muon());
  const int by_muon = groups.of(named("w"), true);
  const int by_adamw = groups.of(named("w"), false);
  const std::vector<OptimizerStateSpec> state = groups.state();
  ASSERT_EQ(state.size(), 3U);
  for (const OptimizerStateSpec& spec : state) {
    EXPECT_EQ(spec.is_of(by_muon), spec.name == "momentum_buffer");
    EXPECT_EQ(spec.is_of(by_adamw), spec.name != "momentum_buffer");
  }
}

TEST(MuonGroups, WhatIsNoMatrixHasTheRateAndDecayOfItsGroup) {
  OptimizerSection section = muon();
  section.groups = {{.match = "a*", .learning_rate = 4e-5, .weight_decay = 0.7}};
  const ParameterGroups groups(section);
  const OptimizerSection settings = groups.settings(groups.of({.name = "a", .shape = {8}}, true));
  EXPECT_EQ(settings.name, "adamw");
  EXPECT_EQ(settings.learning_rate, 4e-5);
  EXPECT_EQ(settings.weight_decay, 0.7);
}

TEST(MuonGroups, MuonWithoutAMatrixIsRefused) {
  const ParameterGroups groups(muon());
  EXPECT_NO_THROW(groups.check(block_of(groups, {named("w")})));
  EXPECT_THROW(groups.check(block_of(groups, {{.name = "norm", .shape = {8}}})), Error);
}

TEST(Int8Groups, SmallParametersHaveFloat32Moments) {
  OptimizerSection section;
  section.moments = Moments::kInt8;
  const ParameterGroups groups(section);
  const int small = groups.of({.name = "a", .shape = {4095}}, true);
  const int large = groups.of({.name = "b", .shape = {4096}}, true);
  EXPECT_EQ(groups.settings(small).moments, Moments::kFloat32);
  EXPECT_EQ(groups.settings(large).moments, Moments::kInt8);
  EXPECT_FALSE(groups.has_blocks(small));
  EXPECT_TRUE(groups.has_blocks(large));
  for (const OptimizerStateSpec& spec : groups.state()) {
    EXPECT_NE(spec.is_of(small), spec.is_of(large)) << spec.name;
  }
}

TEST(Int8Groups, MuonsMomentumIsBFloat16) {
  OptimizerSection section = muon();
  section.moments = Moments::kInt8;
  const ParameterGroups groups(section);
  for (const OptimizerStateSpec& spec : groups.state()) {
    if (spec.name != "momentum_buffer") continue;
    EXPECT_EQ(spec.dtype, at::kBFloat16);
  }
  EXPECT_TRUE(groups.orthogonalises(groups.of(named("w"), true)));
  EXPECT_FALSE(groups.has_blocks(groups.of(named("w"), true)));
}

TEST(AdafactorGroups, LargeMatricesHaveBlocksForTheirFactors) {
  OptimizerSection section;
  section.name = "adafactor";
  const ParameterGroups groups(section);
  const int large = groups.of({.name = "large", .shape = {512, 512}}, true);
  EXPECT_TRUE(groups.has_blocks(large) && groups.factors(large));
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{64, 64}, {1 << 20}, {1, 1 << 20}, {511, 512}}) {
    const int small = groups.of({.name = "small", .shape = shape}, true);
    EXPECT_FALSE(groups.has_blocks(small));
    EXPECT_TRUE(groups.factors(small));
    for (const OptimizerStateSpec& spec : groups.state()) {
      EXPECT_NE(spec.is_of(small), spec.is_of(large)) << spec.name;
    }
  }
}

TEST(AdafactorGroups, AGroupOfAnotherOptimizerHasItsStateAlone) {
  OptimizerSection section;
  section.name = "adafactor";
  section.moments = Moments::kBFloat16;
  section.groups = {{.match = "a", .name = "adamw"}};
  const ParameterGroups groups(section);
  const int adamw = groups.of(named("a"), true);
  EXPECT_FALSE(groups.factors(adamw) || groups.has_blocks(adamw));
  for (const OptimizerStateSpec& spec : groups.state()) {
    EXPECT_EQ(spec.is_of(adamw), spec.name.starts_with("exp_avg")) << spec.name;
    if (spec.name == "exp_avg") {
      EXPECT_EQ(spec.dtype, at::kBFloat16);
    }
  }
}

TEST(ParameterGroups, NothingIsRefusedWhereNothingIsTrained) {
  const ParameterGroups groups(two_groups());
  EXPECT_NO_THROW(groups.check(block_of(groups, {named("b.weight", false)})));
}

}  // namespace
}  // namespace packtrain
