// Biases of routers that follow the load of experts, on a small decoder of one rank. Its layers 1
// and 2 have four experts each, layer 0 has none.
#include "training/steps/router_bias_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "models/decoder/decoder.h"
#include "parallel/communicators/world.h"
#include "tests/training/small_decoder.h"
#include "training/optimizers/adamw.h"

namespace packtrain::router_bias_test {
namespace {

DecoderConfig decoder_with_biases() {
  DecoderConfig decoder = small_decoder();
  decoder.num_layers = 3;
  decoder.layers = {{}, {.experts = true}, {.experts = true}};
  decoder.experts = {.num_experts = 4, .experts_per_token = 2, .intermediate_size = 32};
  decoder.experts.router = RouterKind::kSigmoid;
  decoder.experts.choice_bias = true;
  return decoder;
}

class RouterBiases : public ::testing::Test {
 protected:
  RouterBiases()
      : device_(make_cpu_device({})),
        world_(join_world()),
        model_(make_decoder(decoder_with_biases(), {}), *device_,
               {world_->connect(Backend::kLocal), world_->connect(Backend::kLocal)},
               {.optimizer_state = adamw_state(at::kFloat)}),
        update_(model_, decoder_with_biases(), 0.25) {}

  void run(const std::vector<float>& counts, double skipped = 0) {
    update_.run(at::tensor(counts), at::full({}, skipped, at::kFloat));
  }
  std::vector<float> biases(int layer) {
    const std::string name = "layers." + std::to_string(layer) + ".mlp.router.choice_bias";
    for (const ShardView& shard : model_.parameters().shards()) {
      if (shard.parameter != name) continue;
      const auto* values = shard.weight.const_data_ptr<float>();
      return {values, values + shard.numel};
    }
    return {};
  }

  const at::NoGradGuard no_grad_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<World> world_;
  ShardedModel model_;
  RouterBiasUpdate update_;
};

TEST_F(RouterBiases, RiseForExpertsBelowTheMeanAndFallForThoseAbove) {
  run({9, 0, 1, 2, 1, 1, 3, 3});  // the means are 3 and 2
  EXPECT_EQ(biases(1), (std::vector<float>{-0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(biases(2), (std::vector<float>{0.25, 0.25, -0.25, -0.25}));
}

TEST_F(RouterBiases, StayForExpertsOfTheMean) {
  run({2, 2, 2, 2, 0, 2, 2, 4});
  EXPECT_EQ(biases(1), std::vector<float>(4, 0));
  EXPECT_EQ(biases(2), (std::vector<float>{0.25, 0, 0, -0.25}));
}

TEST_F(RouterBiases, AddUpOverSteps) {
  run({9, 0, 1, 2, 1, 1, 3, 3});
  run({0, 9, 1, 2, 1, 1, 3, 3});
  EXPECT_EQ(biases(1), (std::vector<float>{0, 0, 0.5, 0.5}));
  EXPECT_EQ(biases(2), (std::vector<float>{0.5, 0.5, -0.5, -0.5}));
}

TEST_F(RouterBiases, StayInASkippedStep) {
  run({9, 0, 1, 2, 1, 1, 3, 3});
  run(std::vector<float>(8, std::numeric_limits<float>::quiet_NaN()), 1);
  EXPECT_EQ(biases(1), (std::vector<float>{-0.25, 0.25, 0.25, 0.25}));
}

TEST_F(RouterBiases, AreTheOnlyWeightsThatChange) {
  std::vector<std::pair<ShardView, at::Tensor>> before;
  for (const ShardView& shard : model_.parameters().shards()) {
    if (shard.parameter.find("choice_bias") == std::string::npos) {
      before.emplace_back(shard, shard.weight.clone());
    }
  }
  run({9, 0, 1, 2, 1, 1, 3, 3});
  ASSERT_GT(before.size(), 20U);
  for (const auto& [shard, weight] : before)
    EXPECT_TRUE(shard.weight.equal(weight)) << shard.parameter;
}

std::string refusal(const DecoderConfig& decoder) {
  try {
    check_router_bias_rate(0.001, decoder);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    EXPECT_FALSE(error.advice().empty());
    return error.message();
  }
  return "";
}

TEST(RouterBiasRate, IsRefusedWhereRoutersHaveNoBiases) {
  DecoderConfig decoder = decoder_with_biases();
  EXPECT_EQ(refusal(decoder), "");
  decoder.experts.choice_bias = false;
  EXPECT_EQ(refusal(decoder),
            "optimizer.router_bias_update_rate is 0.001, but the routers of the model have no bias "
            "for the choice of experts");
  EXPECT_NE(refusal(small_decoder()), "");
}

TEST(RouterBiasRate, IsRefusedWithAnAdapter) {
  DecoderConfig decoder = decoder_with_biases();
  decoder.adapter = std::make_shared<const AdapterTargets>();
  EXPECT_NE(refusal(decoder).find("an adapter is trained"), std::string::npos);
}

TEST(RouterBiasRate, OfZeroIsGoodForAnyModel) {
  EXPECT_NO_THROW(check_router_bias_rate(0, small_decoder()));
}

}  // namespace
}  // namespace packtrain::router_bias_test
