// A step whose state is in host memory, against the same step with all state on the device.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicators/world.h"
#include "tests/parallel/sharding/toy_blocks.h"
#include "training/optimizers/parameter_groups.h"
#include "training/steps/optimizer_step.h"

namespace packtrain::streamed_parts_test {
namespace {

constexpr std::array kUpdates = {UpdateStep{.learning_rate = 0.1}};
constexpr std::int64_t kHidden = 96;       // a matrix has 9,216 elements: several parts
constexpr std::int64_t kSmallestSlot = 1;  // parts are as small as they may be

struct Case {
  std::string name;
  OptimizerSection section;
  test::ToyOptions toy = {};
};

test::ToyOptions toy_with(DataType type) {
  test::ToyOptions toy{.num_layers = 3, .hidden = kHidden};
  toy.layer_encoding.type = type;
  return toy;
}

OptimizerSection section_of(const std::string& name, Moments moments = Moments::kFloat32) {
  OptimizerSection section;
  section.name = name;
  section.moments = moments;
  section.betas = {0.9, 0.9};
  section.weight_decay = 0.1;
  section.max_grad_norm = 1;
  return section;
}

std::vector<Case> cases() {
  OptimizerSection grouped = section_of("adamw");
  grouped.groups = {{.match = "*", .name = "lion"}};
  test::ToyOptions two = toy_with(DataType::kBFloat16);
  two.num_optimizers = 2;
  return {
      {"adamw", section_of("adamw"), toy_with(DataType::kFloat32)},
      {"adamw of bfloat16 weights", section_of("adamw"), toy_with(DataType::kBFloat16)},
      {"bfloat16 moments", section_of("adamw", Moments::kBFloat16), toy_with(DataType::kBFloat16)},
      {"lion", section_of("lion"), toy_with(DataType::kBFloat16)},
      {"sophia", section_of("sophia"), toy_with(DataType::kBFloat16)},
      {"two optimizers", grouped, two}};
}

// A model of one rank and its step.
class Trained {
 public:
  Trained(const Case& tested, bool offloads)
      : section_(tested.section),
        device_(make_cpu_device({.stream_delay_us = offloads ? 200 : 0})),
        world_(join_world()),
        model_(test::make_toy_blocks(tested.toy), *device_,
               {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)},
               {.optimizer_state = ParameterGroups(section_).state(), .offload_state = offloads}),
        step_(model_, std::span(&section_, 1), /*seed=*/7, kSmallestSlot),
        outcome_(*device_),
        hessian_outcome_(*device_, kNumHessianDetails) {
    const at::NoGradGuard no_grad;
    for (const ShardView& shard : model_.parameters().shards()) shard.weight.fill_(0.5);
    model_.parameters().weights_changed();
  }

  ShardedModel& model() { return model_; }

  // A step whose gradient follows from its number, and an estimate where the optimizer has one.
  void run(std::int64_t number, double loss = 1) {
    const at::NoGradGuard no_grad;
    const bool estimates = section_.name == "sophia";
    fill_gradient(number);
    step_.run(at::full({}, loss, at::kFloat), kUpdates, number, {}, outcome_, {}, estimates);
    outcome_.read();
    if (!estimates) return;
    fill_gradient(-number);
    step_.run_hessian(at::full({}, 1.0, at::kFloat), 50, number, {}, hessian_outcome_);
    hessian_outcome_.read();
  }

  // All that a step writes.
  std::vector<at::Tensor> state() {
    std::vector<at::Tensor> tensors = model_.parameters().state().weights;
    for (const ShardView& shard : model_.parameters().shards()) {
      tensors.push_back(shard.weight);
      for (const OptimizerTensor& part : shard.optimizer) tensors.push_back(part.values);
    }
    std::vector<at::Tensor> copies;
    for (const at::Tensor& tensor : tensors) copies.push_back(tensor.clone());
    return copies;
  }

 private:
  void fill_gradient(std::int64_t number) {
    model_.gradient().zero_();
    for (const ShardView& shard : model_.parameters().shards()) {
      const at::Tensor own = model_.gradient().narrow(0, shard.state_begin, shard.numel);
      own.copy_(at::arange(shard.numel, at::kFloat).add(static_cast<double>(number)).sin());
    }
  }

  OptimizerSection section_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> world_;
  ShardedModel model_;
  OptimizerStep step_;
  StepOutcome outcome_;
  StepOutcome hessian_outcome_;
};

bool all_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const at::Tensor& one, const at::Tensor& other) { return one.equal(other); });
}

// The buffers of weights differ in order and gaps, the views of shards do not.
std::vector<at::Tensor> of_shards(Trained& trained) {
  const std::vector<at::Tensor> all = trained.state();
  return {all.begin() + std::ssize(trained.model().parameters().state().weights), all.end()};
}

TEST(StreamedParts, StepsHaveTheBitsOfStateOnTheDevice) {
  for (const Case& tested : cases()) {
    Trained kept(tested, /*offloads=*/false);
    Trained offloaded(tested, /*offloads=*/true);
    for (std::int64_t number = 1; number <= 3; ++number) {
      kept.run(number);
      offloaded.run(number);
      EXPECT_TRUE(all_equal(of_shards(offloaded), of_shards(kept))) << tested.name << number;
    }
  }
}

TEST(StreamedParts, WeightsInTheirOwnTypeAreThoseOfTheMaster) {
  for (const Case& tested : cases()) {
    Trained offloaded(tested, /*offloads=*/true);
    offloaded.run(1);
    const std::vector<at::Tensor> before = offloaded.state();
    offloaded.model().parameters().weights_changed();  // encodes the master again
    EXPECT_TRUE(all_equal(offloaded.state(), before)) << tested.name;
  }
}

TEST(StreamedParts, ASkippedStepWritesNothing) {
  for (const Case& tested : cases()) {
    Trained offloaded(tested, /*offloads=*/true);
    offloaded.run(1);
    const std::vector<at::Tensor> before = offloaded.state();
    offloaded.run(2, std::numeric_limits<double>::quiet_NaN());
    EXPECT_TRUE(all_equal(offloaded.state(), before)) << tested.name;
  }
}

TEST(StreamedParts, StateIsInHostMemoryButFloat32WeightsAreNot) {
  for (const Case& tested : cases()) {
    Trained offloaded(tested, /*offloads=*/true);
    const bool is_narrow = tested.toy.layer_encoding.type == DataType::kBFloat16;
    EXPECT_EQ(offloaded.model().parameters().state().master.defined(), is_narrow) << tested.name;
    for (const ShardView& shard : offloaded.model().parameters().shards()) {
      const bool is_matrix = shard.parameter.ends_with(".weight") && shard.numel > kHidden;
      EXPECT_EQ(shard.weight_on_host, is_matrix && is_narrow) << shard.parameter;
      EXPECT_TRUE(shard.optimizer_on_host) << shard.parameter;
    }
  }
}

}  // namespace
}  // namespace packtrain::streamed_parts_test
