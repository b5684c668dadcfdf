// Tests how a step's record sums the batches' statistics of experts.
#include "training/steps/expert_load.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "models/layers/routing_statistics.h"

namespace packtrain {
namespace {

// Three layers, experts in the last two.
DecoderConfig decoder_with_experts(double auxiliary_loss) {
  DecoderConfig decoder;
  decoder.num_layers = 3;
  decoder.layers = {{}, {.experts = true}, {.experts = true}};
  decoder.experts = {.num_experts = 4, .experts_per_token = 2, .auxiliary_loss = auxiliary_loss};
  return decoder;
}

// Makes a batch of two examples with the same experts.
DeviceBatch batch_of(const std::vector<float>& counts, float auxiliary_loss) {
  DeviceBatch batch;
  batch.loss_weight = at::full({1}, 1.0, at::TensorOptions(at::kFloat));
  batch.state.routing = std::make_shared<RoutingStatistics>();
  const at::Tensor half = at::tensor(counts).view({2, 1, 4});
  batch.state.routing->counts = half.expand({2, 2, 4});
  batch.state.routing->loss = at::full({}, auxiliary_loss, at::TensorOptions(at::kFloat));
  return batch;
}

std::vector<double> sums_of(const std::vector<DeviceBatch>& batches, const DecoderConfig& decoder) {
  const at::Tensor sums = sum_expert_load(batches, decoder).to(at::kDouble);
  const auto* begin = sums.const_data_ptr<double>();
  return {begin, begin + sums.numel()};
}

TEST(ExpertLoadOfAStep, AddsUpBatchesExamplesAndLayers) {
  const DecoderConfig decoder = decoder_with_experts(0.1);
  std::vector<DeviceBatch> batches = {batch_of({1, 2, 3, 2, 0, 4, 0, 0}, 0.5F),
                                      batch_of({3, 2, 1, 2, 4, 0, 0, 0}, 0.25F)};
  ASSERT_EQ(num_load_numbers(decoder), 9);
  const auto load = expert_load(sums_of(batches, decoder), decoder);
  ASSERT_TRUE(load);
  EXPECT_EQ(load->tokens, (std::vector<double>{16, 16, 8, 8}));
  EXPECT_DOUBLE_EQ(load->max, 2);  // the first layer is even
  EXPECT_DOUBLE_EQ(load->min, 0);
  EXPECT_EQ(load->auxiliary_loss, 0.75);
}

TEST(ExpertLoadOfAStep, HasNoAuxiliaryLossWhereNoneIsTrained) {
  const DecoderConfig decoder = decoder_with_experts(0);
  DeviceBatch batch = batch_of({1, 2, 3, 2, 1, 1, 1, 1}, 0);
  batch.state.routing->loss = at::Tensor();
  ASSERT_EQ(num_load_numbers(decoder), 8);
  const auto load = expert_load(sums_of({batch}, decoder), decoder);
  ASSERT_TRUE(load);
  EXPECT_FALSE(load->auxiliary_loss);
  EXPECT_DOUBLE_EQ(load->max, 1.5);
  EXPECT_DOUBLE_EQ(load->min, 0.5);
}

TEST(ExpertLoadOfAStep, IsNothingWithoutExperts) {
  EXPECT_EQ(num_load_numbers(DecoderConfig{}), 0);
  EXPECT_FALSE(expert_load({}, DecoderConfig{}));
}

}  // namespace
}  // namespace packtrain
