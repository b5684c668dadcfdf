// The end of a step on a toy model of one rank: clipping, decay groups, and what is refused.
#include "training/steps/optimizer_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "parallel/communicators/forwarding_communicator.h"
#include "parallel/communicators/world.h"
#include "tests/parallel/sharding/toy_blocks.h"
#include "training/optimizers/adamw.h"

namespace packtrain {
namespace {

class OptimizerStepTest : public ::testing::Test {
 protected:
  OptimizerStepTest()
      : device_(make_cpu_device({})),
        world_(join_world()),
        model_(test::make_toy_blocks({.num_layers = 2}), *device_,
               {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)},
               {.optimizer_state = adamw_state(at::kFloat)}),
        outcome_(*device_) {
    for (const ShardView& shard : model_.parameters().shards()) shard.weight.fill_(0.5);
    options_.betas = {0.9, 0.95};
  }

  StepOutcome::Values step(double loss) {
    OptimizerStep step(model_, options_, /*seed=*/0);
    step.run(at::full({}, loss, at::kFloat), 0.1, 1, {}, outcome_);
    return outcome_.read();
  }

  const at::NoGradGuard no_grad_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> world_;
  ShardedModel model_;
  OptimizerSection options_;
  StepOutcome outcome_;
};

TEST_F(OptimizerStepTest, ReportsTheNormBeforeClippingAndClipsToTheBound) {
  model_.gradient().fill_(3.0);
  const double norm = 3.0 * std::sqrt(static_cast<double>(model_.gradient().numel()));
  options_.max_grad_norm = 1.0;
  const StepOutcome::Values values = step(2.5);
  EXPECT_NEAR(values.grad_norm, norm, 1e-3 * norm);
  EXPECT_DOUBLE_EQ(values.loss, 2.5);
  EXPECT_TRUE(values.applied);
  const double clipped = 3.0 / norm;
  const at::Tensor& moment = find_tensor(model_.parameters().state().optimizer, kExpAvg);
  EXPECT_TRUE(at::allclose(moment, at::full_like(moment, 0.1 * clipped), 1e-4, 1e-7));
}

TEST_F(OptimizerStepTest, PassesDetailsOnTogetherWithTheLoss) {
  StepOutcome outcome(*device_, 3);
  OptimizerStep(model_, options_, /*seed=*/0)
      .run(at::full({}, 2.5, at::kFloat), 0.1, 1, {.stop = true}, outcome,
           at::full({3}, 7.5, at::kFloat));
  const StepOutcome::Values values = outcome.read();
  EXPECT_EQ(values.details, std::vector<double>(3, 7.5));
  EXPECT_DOUBLE_EQ(values.loss, 2.5);
  EXPECT_TRUE(values.requests.stop);
  EXPECT_FALSE(values.requests.save);
  EXPECT_TRUE(step(2.5).details.empty());
}

TEST_F(OptimizerStepTest, PassesEveryCombinationOfRequestsOn) {
  StepOutcome outcome(*device_);
  for (int bits = 0; bits < 8; ++bits) {
    const StepRequests asked{
        .stop = (bits & 1) != 0, .save = (bits & 2) != 0, .out_of_memory = (bits & 4) != 0};
    OptimizerStep(model_, options_, /*seed=*/0)
        .run(at::full({}, 2.5, at::kFloat), 0.1, 1, asked, outcome);
    const StepOutcome::Values values = outcome.read();
    EXPECT_EQ(values.requests.stop, asked.stop) << bits;
    EXPECT_EQ(values.requests.save, asked.save) << bits;
    EXPECT_EQ(values.requests.out_of_memory, asked.out_of_memory) << bits;
    EXPECT_EQ(values.num_ranks_out_of_memory, asked.out_of_memory ? 1 : 0) << bits;
  }
}

// Stands for very many ranks: this one, and others whose requests a test sets.
class ManyRanks final : public ForwardingCommunicator {
 public:
  ManyRanks(std::unique_ptr<Communicator> real, const std::array<float, 3>& others)
      : ForwardingCommunicator(std::move(real)), others_(others) {}

  void all_reduce(void* buffer, std::size_t /*count*/, DataType /*type*/, ReduceOp /*op*/,
                  void* /*stream*/) override {
    // step_sums(): loss, squared norm, requests.
    auto* sums = static_cast<float*>(buffer);
    for (std::size_t r = 0; r < others_.size(); ++r) sums[2 + r] += others_[r];
  }

 private:
  std::array<float, 3> others_;
};

class RequestsOfManyRanks : public OptimizerStepTest {
 protected:
  StepOutcome::Values asked_by(float stops, float saves, float out_of_memory) {
    ShardedModel model(
        test::make_toy_blocks({.num_layers = 2}), *device_,
        {world_->connect(Backend::kLocal),
         std::make_unique<ManyRanks>(world_->connect(Backend::kLocal),
                                     std::array<float, 3>{stops, saves, out_of_memory})},
        {.optimizer_state = adamw_state(at::kFloat)});
    OptimizerStep(model, options_, /*seed=*/0)
        .run(at::full({}, 2.5, at::kFloat), 0.1, 1, {}, outcome_);
    return outcome_.read();
  }
};

TEST_F(RequestsOfManyRanks, AreCountedWhenAnyNumberOfRanksRunOutOfMemory) {
  for (const int count : {1, 2047, 2048, 2049, 4096, 8192, 1 << 24}) {
    const StepOutcome::Values values = asked_by(0, 0, static_cast<float>(count));
    EXPECT_EQ(values.num_ranks_out_of_memory, count);
    EXPECT_TRUE(values.requests.out_of_memory) << count;
    EXPECT_FALSE(values.requests.stop) << count;
    EXPECT_FALSE(values.requests.save) << count;
  }
}

TEST_F(RequestsOfManyRanks, DoNotHideEachOther) {
  for (const int count : {2048, 2049, 4096, 8192}) {
    const StepOutcome::Values values = asked_by(static_cast<float>(count), 1, 1);
    EXPECT_TRUE(values.requests.stop) << count;
    EXPECT_TRUE(values.requests.save) << count;
    EXPECT_EQ(values.num_ranks_out_of_memory, 1) << count;
  }
}

TEST_F(OptimizerStepTest, DecaysMatricesButNotVectors) {
  options_.weight_decay = 0.5;
  model_.gradient().zero_();
  step(1.0);
  for (const ShardView& shard : model_.parameters().shards()) {
    const double want = shard.shape.size() == 2 ? 0.5 * (1 - 0.1 * 0.5) : 0.5;
    EXPECT_TRUE(at::allclose(shard.weight, at::full_like(shard.weight, want))) << shard.parameter;
  }
}

TEST_F(OptimizerStepTest, WritesNothingWhenLossOrNormIsNotFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor before = model_.parameters().state().master.clone();
  EXPECT_FALSE(step(nan).applied);
  model_.gradient().select(0, 0).fill_(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(step(1.0).applied);
  EXPECT_TRUE(model_.parameters().state().master.equal(before));
  EXPECT_EQ(find_tensor(model_.parameters().state().optimizer, kExpAvg)
                .count_nonzero()
                .item<std::int64_t>(),
            0);
}

}  // namespace
}  // namespace packtrain
