// A step of parameters with other settings than the section, on a toy model of one rank.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>

#include "parallel/communicators/world.h"
#include "tests/parallel/sharding/toy_blocks.h"
#include "training/optimizers/adamw.h"
#include "training/steps/optimizer_step.h"

namespace packtrain {
namespace {

// The matrices of layers 0 and 2 have the settings of the section, those of 1 and 3 of its group.
class StepOfGroups : public ::testing::Test {
 protected:
  StepOfGroups()
      : device_(make_cpu_device({})),
        world_(join_world()),
        model_(test::make_toy_blocks({.num_layers = 4, .num_optimizers = 2}), *device_,
               {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)},
               {.optimizer_state = adamw_state(at::kFloat)}),
        outcome_(*device_) {
    for (const ShardView& shard : model_.parameters().shards()) shard.weight.fill_(0.5);
    options_.learning_rate = 0.5;
    options_.weight_decay = 0;
    options_.max_grad_norm = 0;
  }

  void step(double gradient) {
    const std::array updates = {UpdateStep{.learning_rate = 0.1}};
    model_.gradient().fill_(gradient);
    OptimizerStep step(model_, std::span(&options_, 1), /*seed=*/0);
    step.run(at::full({}, 1.0, at::kFloat), updates, 1, {}, outcome_);
  }

  // How far the step moved the matrix of a layer.
  double moved(const std::string& layer) {
    for (const ShardView& shard : model_.parameters().shards()) {
      if (shard.parameter == layer + ".weight") return shard.weight[0].item<double>() - 0.5;
    }
    return 0;
  }

  const at::NoGradGuard no_grad_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> world_;
  ShardedModel model_;
  OptimizerSection options_;
  StepOutcome outcome_;
};

TEST_F(StepOfGroups, TheRateOfAGroupFollowsTheScheduleOfTheStep) {
  options_.groups = {{.match = "*", .learning_rate = 1.0}};
  step(1.0);
  EXPECT_NEAR(moved("layer0"), -0.1, 1e-6);
  EXPECT_NEAR(moved("layer1"), -0.2, 1e-6);
}

TEST_F(StepOfGroups, AGroupHasItsOwnDecay) {
  options_.groups = {{.match = "*", .weight_decay = 0.5}};
  step(0.0);
  EXPECT_EQ(moved("layer2"), 0);
  EXPECT_NEAR(moved("layer3"), -0.5 * 0.1 * 0.5, 1e-6);
}

}  // namespace
}  // namespace packtrain
