// Tests the settings of optimizer.name: sophia.
#include <gtest/gtest.h>

#include "framework/config/sophia_settings.h"
#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

void expect_error_with(const std::string& yaml, const std::vector<std::string>& parts) {
  const std::string error = load_error(yaml);
  for (const std::string& part : parts) {
    EXPECT_NE(error.find(part), std::string::npos) << error << "\nwanted: " << part;
  }
}

TEST(ConfigSophia, HasTheDefaultsOfItsPaper) {
  const OptimizerSection optimizer = load("optimizer: {name: sophia}").optimizer;
  EXPECT_EQ(optimizer.betas, (std::array{0.965, 0.99}));
  EXPECT_EQ(optimizer.epsilon, 1e-15);
  EXPECT_EQ(optimizer.gamma, 0.05);
  EXPECT_EQ(optimizer.hessian_every, 10);
  EXPECT_EQ(optimizer.hessian_share, 0.5);
  EXPECT_TRUE(has_hessian(optimizer));
  EXPECT_FALSE(has_hessian(OptimizerSection()));
  EXPECT_EQ(load("").optimizer.betas, (std::array{0.9, 0.95}));
}

TEST(ConfigSophia, TakesItsShareOfTheStepsOnceInItsInterval) {
  EXPECT_DOUBLE_EQ(hessian_compute_share(load("optimizer: {name: sophia}").optimizer), 0.05);
  EXPECT_EQ(hessian_compute_share(OptimizerSection()), 0);
}

TEST(ConfigSophia, SettingsThatAreGivenHold) {
  const OptimizerSection optimizer =
      load(
          "optimizer: {name: sophia, betas: [0.9, 0.95], epsilon: 1e-8, gamma: 0.08, "
          "hessian_every: 5, hessian_share: 1}")
          .optimizer;
  EXPECT_EQ(optimizer.betas, (std::array{0.9, 0.95}));
  EXPECT_EQ(optimizer.epsilon, 1e-8);
  EXPECT_EQ(optimizer.gamma, 0.08);
  EXPECT_EQ(optimizer.hessian_every, 5);
  EXPECT_EQ(optimizer.hessian_share, 1);
}

TEST(ConfigSophia, TheResolvedConfigurationLoadsAsTheSame) {
  const Config config = load("optimizer: {name: sophia, hessian_every: 7}");
  EXPECT_EQ(dump_config(load(dump_config(config))), dump_config(config));
}

TEST(ConfigSophia, AnotherOptimizerRefusesItsKeys) {
  expect_error_with(
      "optimizer: {hessian_every: 5}",
      {"optimizer.hessian_every is 5 (config.yaml:1:28)",
       "optimizer.name is adamw (default), which does not read it", "set optimizer.name: sophia"});
  expect_error_with("optimizer: {gamma: 0.1}", {"optimizer.gamma is 0.1"});
  expect_error_with("optimizer: {hessian_share: 0.1}", {"optimizer.hessian_share is 0.1"});
}

TEST(ConfigSophia, ObjectivesOfGroupsAreRefused) {
  expect_error_with("optimizer: {name: sophia}\nobjective: {kind: dpo}\nadapter: {kind: lora}",
                    {"optimizer.name is sophia (config.yaml:1:19)",
                     "objective.kind is dpo (config.yaml:2:19)", "Set optimizer.name: adamw"});
}

TEST(ConfigSophia, SeveralAdaptersAreRefused) {
  expect_error_with(
      "optimizer: {name: sophia}\nadapter: {kind: lora}\nadapters: [{name: a, train: x}, {name: b, "
      "train: y}]",
      {"optimizer.name is sophia", "a run of its own"});
}

TEST(ConfigSophia, ValuesOutOfRangeAreRefused) {
  const std::string begin = "optimizer: {name: sophia, ";
  expect_error_with(begin + "gamma: 0}", {"optimizer.gamma: got 0, wanted a number > 0"});
  expect_error_with(begin + "hessian_every: 0}", {"wanted an integer >= 1"});
  expect_error_with(begin + "hessian_share: 0}", {"optimizer.hessian_share: got 0"});
  expect_error_with(begin + "hessian_share: 1.5}", {"optimizer.hessian_share: got 1.5"});
}

}  // namespace
}  // namespace packtrain
