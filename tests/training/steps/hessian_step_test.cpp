// The update of a Hessian estimate on a toy model of one rank.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "parallel/communicators/world.h"
#include "tests/parallel/sharding/toy_blocks.h"
#include "training/optimizers/sophia.h"
#include "training/steps/optimizer_step.h"

namespace packtrain::hessian_step_test {
namespace {

constexpr std::array kUpdates = {UpdateStep{.learning_rate = 0.1}};

// Sophia's Hessian estimate, from gradients of its own after each step.
class StepOfSophia : public ::testing::Test {
 protected:
  StepOfSophia()
      : device_(make_cpu_device({})),
        world_(join_world()),
        model_(test::make_toy_blocks({.num_layers = 2}), *device_,
               {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)},
               {.optimizer_state = sophia_state(at::kFloat)}),
        step_outcome_(*device_),
        outcome_(*device_, kNumHessianDetails) {
    for (const ShardView& shard : model_.parameters().shards()) shard.weight.fill_(0.5);
    options_.name = "sophia";
    options_.betas = {0.9, 0.75};
    options_.gamma = 1;
    options_.weight_decay = 0;
    options_.max_grad_norm = 0;
    step_ = std::make_unique<OptimizerStep>(model_, std::span(&options_, 1), /*seed=*/0);
  }

  // A step with this gradient, then an estimate from the other one with 50 labels.
  StepOutcome::Values run(double gradient, double of_samples, double loss = 1.0) {
    fill_gradient(gradient);
    step_->run(at::full({}, loss, at::kFloat), kUpdates, 1, {}, step_outcome_, {},
               /*before_hessian=*/true);
    fill_gradient(of_samples);
    step_->run_hessian(at::full({}, 1.0, at::kFloat), 50, 1, {.out_of_memory = of_samples == 0},
                       outcome_);
    return outcome_.read();
  }
  // Not the gaps between parameters.
  void fill_gradient(double value) {
    model_.gradient().zero_();
    const std::int64_t begin = model_.parameters().state().master.storage_offset();
    for (const ShardView& shard : model_.parameters().shards()) {
      model_.gradient().narrow(0, shard.weight.storage_offset() - begin, shard.numel).fill_(value);
    }
  }
  std::int64_t num_elements() {
    std::int64_t count = 0;
    for (const ShardView& shard : model_.parameters().shards()) count += shard.numel;
    return count;
  }
  at::Tensor hessian() {
    std::vector<at::Tensor> parts;
    for (const ShardView& shard : model_.parameters().shards()) {
      parts.push_back(find_tensor(shard.optimizer, kSophiaHessian));
    }
    return at::cat(parts);
  }

  const at::NoGradGuard no_grad_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> world_;
  ShardedModel model_;
  OptimizerSection options_;
  StepOutcome step_outcome_;
  StepOutcome outcome_;
  std::unique_ptr<OptimizerStep> step_;
};

TEST_F(StepOfSophia, TakesTheSquaresOfTheGradientTimesTheNumberOfLabels) {
  EXPECT_TRUE(run(1.0, 0.2).applied);
  EXPECT_TRUE(at::allclose(hessian(), at::full_like(hessian(), 0.25 * 50 * 0.04)));
  EXPECT_TRUE(run(1.0, 0.4).applied);
  EXPECT_TRUE(at::allclose(hessian(), at::full_like(hessian(), 0.75 * 0.5 + 0.25 * 50 * 0.16)));
}

TEST_F(StepOfSophia, ReportsTheElementsThatTheUpdateDidNotClip) {
  const StepOutcome::Values first = run(1.0, 0.2);  // without a Hessian all are clipped
  ASSERT_EQ(first.details.size(), 2U);
  EXPECT_EQ(first.details[0], 0);
  EXPECT_EQ(first.details[1], static_cast<double>(num_elements()));
  const StepOutcome::Values second = run(1.0, 0.2);  // m is 0.19, h is 0.5
  EXPECT_EQ(second.details[0], second.details[1]);
}

TEST_F(StepOfSophia, LeavesTheEstimateWhereTheStepOrItsOwnGradientIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  run(1.0, 0.2);
  const at::Tensor before = hessian();
  run(nan, 0.4);
  EXPECT_TRUE(hessian().equal(before));
  run(1.0, 0.4, /*loss=*/nan);
  EXPECT_TRUE(hessian().equal(before));
  EXPECT_FALSE(run(1.0, nan).applied);
  EXPECT_TRUE(hessian().equal(before));
  EXPECT_TRUE(run(1.0, 0.4).applied);
  EXPECT_FALSE(hessian().equal(before));
}

TEST_F(StepOfSophia, PassesOutOfMemoryOn) {
  EXPECT_FALSE(run(1.0, 0.2).requests.out_of_memory);
  EXPECT_EQ(run(1.0, 0.0).num_ranks_out_of_memory, 1);
}

}  // namespace
}  // namespace packtrain::hessian_step_test
