// The end of a step on a toy model of one rank: clipping, decay groups, and what is refused.
#include "training/steps/optimizer_step.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicators/forwarding_communicator.h"
#include "parallel/communicators/world.h"
#include "tests/parallel/sharding/toy_blocks.h"
#include "training/optimizers/adamw.h"

namespace packtrain {
namespace {

constexpr std::array kUpdates = {UpdateStep{.learning_rate = 0.1}};

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
    OptimizerStep step(model_, std::span(&options_, 1), /*seed=*/0);
    step.run(at::full({}, loss, at::kFloat), kUpdates, 1, {}, outcome_);
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
  OptimizerStep(model_, std::span(&options_, 1), /*seed=*/0)
      .run(at::full({}, 2.5, at::kFloat), kUpdates, 1, {.stop = true}, outcome,
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
    OptimizerStep(model_, std::span(&options_, 1), /*seed=*/0)
        .run(at::full({}, 2.5, at::kFloat), kUpdates, 1, asked, outcome);
    const StepOutcome::Values values = outcome.read();
    EXPECT_EQ(values.requests.stop, asked.stop) << bits;
    EXPECT_EQ(values.requests.save, asked.save) << bits;
    EXPECT_EQ(values.requests.out_of_memory, asked.out_of_memory) << bits;
    EXPECT_EQ(values.num_ranks_out_of_memory, asked.out_of_memory ? 1 : 0) << bits;
  }
}

// Layers 0 and 2 are of the first adapter with the first and last vector, 1 and 3 of the second.
class StepOfSeveralAdapters : public OptimizerStepTest {
 protected:
  StepOfSeveralAdapters()
      : two_(test::make_toy_blocks({.num_layers = 4, .num_adapters = 2}), *device_,
             {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)},
             {.optimizer_state = adamw_state(at::kFloat)}),
        outcome_of_two_(*device_, 2, 2) {
    for (const ShardView& shard : two_.parameters().shards()) shard.weight.fill_(0.5);
  }

  // Fills the gradient of each adapter's matrices.
  void fill_gradients(double first, double second) {
    two_.gradient().zero_();
    for (const OptimizerRange& range : two_.parameters().optimizer_ranges()) {
      if (range.group != OptimizerGroup::kDecay) continue;
      two_.gradient().narrow(0, range.begin, 64).fill_(range.adapter == 0 ? first : second);
    }
  }

  StepOutcome::Values step(std::vector<float> losses, const RefusalBounds& of_second = {}) {
    const std::array options = {options_, options_};
    const std::array updates = {UpdateStep{0.1, {}}, UpdateStep{0.2, of_second}};
    OptimizerStep step(two_, options, /*seed=*/0);
    step.run(at::full({}, losses[0] + losses[1], at::kFloat), updates, 1, {}, outcome_of_two_,
             at::tensor(losses));
    return outcome_of_two_.read();
  }

  // How far the step moved the matrix of a layer.
  double moved(const std::string& layer) {
    for (const ShardView& shard : two_.parameters().shards()) {
      if (shard.parameter == layer + ".weight") return (shard.weight[0].item<double>() - 0.5);
    }
    return 0;
  }

  ShardedModel two_;
  StepOutcome outcome_of_two_;
};

TEST_F(StepOfSeveralAdapters, HasANormForEach) {
  fill_gradients(3.0, 4.0);
  const StepOutcome::Values values = step({1.5F, 2.5F});
  EXPECT_EQ(values.details, (std::vector<double>{1.5, 2.5}));
  ASSERT_EQ(values.adapters.size(), 2U);
  EXPECT_NEAR(values.adapters[0].grad_norm, 3 * std::sqrt(128.0), 1e-3);
  EXPECT_NEAR(values.adapters[1].grad_norm, 4 * std::sqrt(128.0), 1e-3);
  EXPECT_NEAR(values.grad_norm, 5 * std::sqrt(128.0), 1e-3);
  EXPECT_EQ(values.adapters[1].loss, 2.5);
}

TEST_F(StepOfSeveralAdapters, UpdatesEachByItsOwnRate) {
  options_.weight_decay = 0;
  fill_gradients(1.0, 1.0);
  step({1.0F, 1.0F});
  EXPECT_NEAR(moved("layer0"), -0.1, 1e-4);
  EXPECT_NEAR(moved("layer1"), -0.2, 1e-4);
  EXPECT_NEAR(moved("layer3"), -0.2, 1e-4);
}

TEST_F(StepOfSeveralAdapters, SkipsTheOneThatIsNotFiniteOrAboveItsBound) {
  options_.weight_decay = 0;
  fill_gradients(1.0, std::numeric_limits<double>::quiet_NaN());
  StepOutcome::Values values = step({1.0F, 1.0F});
  EXPECT_TRUE(values.adapters[0].applied);
  EXPECT_FALSE(values.adapters[1].applied);
  EXPECT_NEAR(moved("layer0"), -0.1, 1e-4);
  EXPECT_EQ(moved("layer1"), 0);
  fill_gradients(1.0, 1.0);
  values = step({1.0F, 1.0F}, {.loss = 0.5});
  EXPECT_TRUE(values.adapters[0].applied);
  EXPECT_FALSE(values.adapters[1].applied);
  EXPECT_EQ(moved("layer1"), 0);
}

// Weights of 8-bit products, whose scales the update finds.
class StepOfFp8Weights : public OptimizerStepTest {
 protected:
  StepOfFp8Weights()
      : in_fp8_(test::make_toy_blocks({.num_layers = 3,
                                       .hidden = 16,
                                       .frozen_layers = {1},
                                       .layer_encoding = {DataType::kBFloat16},
                                       .in_fp8 = true}),
                *device_, {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)},
                {.optimizer_state = adamw_state(at::kFloat)}) {
    at::manual_seed(5);  // other weights may have the same largest one after the step
    for (const ShardView& shard : in_fp8_.parameters().shards()) shard.weight.normal_();
    in_fp8_.parameters().weights_changed();
  }

  // Returns true if it was applied.
  bool step(double gradient) {
    in_fp8_.gradient().fill_(gradient);
    OptimizerStep step(in_fp8_, std::span(&options_, 1), /*seed=*/0);
    step.run(at::full({}, 1.0, at::kFloat), kUpdates, 1, {}, outcome_);
    return outcome_.read().applied;
  }

  at::Tensor amax() const { return in_fp8_.parameters().scales().amax().clone(); }
  // By a pass over the weights.
  at::Tensor amax_of_a_pass() {
    in_fp8_.parameters().weights_changed();
    return amax();
  }

  ShardedModel in_fp8_;
};

TEST_F(StepOfFp8Weights, FindsTheAmaxOfAPassOverTheNewWeights) {
  const at::Tensor before = amax();
  EXPECT_TRUE(step(0.5));
  const at::Tensor after = amax();
  EXPECT_EQ(after.ne(before).sum().item<std::int64_t>(), 2);  // of the two trained weights
  EXPECT_TRUE(after.equal(amax_of_a_pass())) << after;
}

TEST_F(StepOfFp8Weights, KeepsTheAmaxWhereItIsSkipped) {
  const at::Tensor before = amax();
  EXPECT_FALSE(step(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(amax().equal(before));
  EXPECT_TRUE(amax_of_a_pass().equal(before));
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
    OptimizerStep(model, std::span(&options_, 1), /*seed=*/0)
        .run(at::full({}, 2.5, at::kFloat), kUpdates, 1, {}, outcome_);
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
