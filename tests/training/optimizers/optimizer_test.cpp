// The table of optimizers, and AdamW by its interface.
#include "training/optimizers/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/config/schema.h"
#include "framework/core/error.h"
#include "tests/training/optimizers/shard.h"

namespace packtrain {
namespace {

using test::make_shard;

TEST(OptimizerTable, HasEveryNameThatTheConfigurationAccepts) {
  Config config;
  const std::vector<Field> fields = fields_of(config);
  const auto name = std::ranges::find(fields, "optimizer.name", &Field::name);
  ASSERT_NE(name, fields.end());
  for (const std::string& choice : name->choices) {
    config.optimizer.name = choice;
    EXPECT_FALSE(make_optimizer(config.optimizer, 0)->state().empty()) << choice;
  }
}

TEST(OptimizerTable, RefusesAnotherName) {
  OptimizerSection options;
  options.name = "none";
  EXPECT_THROW(make_optimizer(options, 0), Error);
}

TEST(OptimizerTable, NormsAndBiasesHaveNoWeightDecay) {
  OptimizerSection options;
  options.weight_decay = 0.25;
  const auto decays = weight_decays(options);
  EXPECT_EQ(decays.at(static_cast<std::size_t>(OptimizerGroup::kDecay)), 0.25);
  EXPECT_EQ(decays.at(static_cast<std::size_t>(OptimizerGroup::kNoDecay)), 0);
}

TEST(AdamWOptimizer, UpdatesAsTheOperatorDoes) {
  OptimizerSection section;
  section.betas = {0.8, 0.9};
  section.epsilon = 1e-6;
  section.weight_decay = 0.1;
  section.moments = Moments::kBFloat16;
  AdamWOptions options;
  options.learning_rate = 3e-3;
  options.beta1 = 0.8;
  options.beta2 = 0.9;
  options.epsilon = 1e-6;
  options.weight_decay = {0.1, 0};
  options.step = 3;
  options.seed = 5;
  const std::vector<ShardRange> ranges = {
      {.begin = 0, .numel = 512},
      {.begin = 512, .numel = 512, .group = OptimizerGroup::kNoDecay, .first_element = 4096}};
  const AdamWTensors want = make_shard({.numel = 1024, .moments = at::kBFloat16});
  const AdamWTensors got = make_shard({.numel = 1024, .moments = at::kBFloat16});
  const at::Tensor clip_factor = test::clip_factor(0.5F);
  const at::Tensor skip = test::skip(0);
  adamw(want, ranges, options, clip_factor, skip);
  const auto optimizer = make_optimizer(section, /*seed=*/5);
  optimizer->update({got.master, got.grad, {got.exp_avg, got.exp_avg_sq}, got.weight}, ranges,
                    {3e-3, 3, clip_factor, skip});
  EXPECT_TRUE(test::all_equal(got, want));
  EXPECT_FALSE(test::all_equal(got, make_shard({.numel = 1024, .moments = at::kBFloat16})));
}

TEST(AdamWOptimizer, HasStateOfTheConfiguredType) {
  OptimizerSection section;
  EXPECT_EQ(make_optimizer(section, 0)->state().at(0).dtype, at::kFloat);
  section.moments = Moments::kBFloat16;
  EXPECT_EQ(make_optimizer(section, 0)->state().at(0).dtype, at::kBFloat16);
}

}  // namespace
}  // namespace packtrain
