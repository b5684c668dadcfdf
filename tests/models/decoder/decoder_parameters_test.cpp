// The parameters of a decoder: their number, decay, sharing and freezing.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "framework/core/error.h"
#include "models/block/encoded_layout.h"
#include "models/block/parameter_matrices.h"
#include "models/decoder/decoder.h"
#include "models/estimates/flops.h"
#include "tests/models/batches.h"

namespace packtrain {
namespace {

TEST(DecoderParameters, CountAndFlopsFollowTheFormula) {
  DecoderConfig config = small_config();
  config.qkv_bias = config.attention_output_bias = config.mlp_bias = false;
  const std::int64_t layer = 32 * (4 + 2 * 2) * 8 + 32 * 32 + 3 * 32 * 48;
  EXPECT_EQ(num_matmul_parameters(config), 2 * layer + 61 * 32);
  EXPECT_EQ(num_parameters(config), 2 * (layer + 2 * 32) + 32 + 2 * 61 * 32);
  EXPECT_DOUBLE_EQ(training_flops(config, 10, 100),
                   6.0 * static_cast<double>(2 * layer + 61 * 32) * 10 + 6.0 * 2 * 32 * 100);
  config.tied_embeddings = true;
  EXPECT_EQ(num_parameters(config), 2 * (layer + 2 * 32) + 32 + 61 * 32);
}

// Zeros after values are not counted: 4 heads of 12 elements in queries and of 6 in values.
TEST(DecoderParameters, FlopsOfLatentAttentionLeaveOutZeros) {
  DecoderConfig config = small_config();
  config.num_kv_heads = 4;
  config.head_dim = 12;
  config.rotary_dim = 4;
  config.latent = {.key_value_rank = 9, .query_rank = 10, .value_head_dim = 6};
  const std::int64_t queries = 32 * 10 + 10 * 4 * 12;
  const std::int64_t keys = 32 * (9 + 4) + 9 * 4 * (8 + 6);
  const std::int64_t layer = queries + keys + 4 * 6 * 32 + 3 * 32 * 48;
  EXPECT_EQ(num_matmul_parameters(config), 2 * layer + 61 * 32);
  EXPECT_DOUBLE_EQ(
      training_flops(config, 10, 100),
      6.0 * static_cast<double>(2 * layer + 61 * 32) * 10 + 6.0 * 2 * 4 * (12 + 6) / 2 * 100);
}

// Frozen products have no gradient of the weight: 4 operations each, those of the update 6.
TEST(DecoderParameters, FlopsOfExpertsUnderAnAdapterFollowTheFormula) {
  DecoderConfig base = small_config();
  base.layers = {{}, {.experts = true}};
  base.experts = {.num_experts = 5, .experts_per_token = 2, .intermediate_size = 24};
  const std::int64_t frozen = num_matmul_parameters(base);
  EXPECT_DOUBLE_EQ(training_flops(base, 10, 0), 60.0 * static_cast<double>(frozen));
  AdapterTargets adapter;
  adapter.weights["layers.1.mlp.experts.gate_up.weight"] = {{"gate_up_proj", 0, 48, 4, 1.0}};
  adapter.weights["layers.1.mlp.experts.down.weight"] = {{"down_proj", 0, 32, 3, 1.0}};
  DecoderConfig config = base;
  config.adapter = std::make_shared<const AdapterTargets>(adapter);
  const std::int64_t update = 2 * (4 * (32 + 48) + 3 * (24 + 32));
  EXPECT_EQ(num_parameters(config) - num_parameters(base), 5 * update / 2);
  EXPECT_DOUBLE_EQ(training_flops(config, 10, 0),
                   40.0 * static_cast<double>(frozen) + 60.0 * static_cast<double>(update));
}

TEST(DecoderParameters, NormsAndBiasesDecayOnlyOnRequest) {
  DecoderOptions options;
  for (const bool all : {false, true}) {
    options.decay_norms_and_biases = all;
    for (const auto& block : make_decoder(small_config(), options)) {
      for (const ParameterSpec& parameter : block->parameters()) {
        const bool decays = parameter.group == OptimizerGroup::kDecay;
        EXPECT_EQ(decays, all || parameter.shape.size() == 2) << parameter.name;
      }
    }
  }
}

TEST(DecoderParameters, FiltersOfAConvolutionAreNoMatrixAndProjectionsOfADeltaRuleSeveral) {
  DecoderConfig config = small_config();
  config.layers = {{.delta_net = true}, {}};
  config.delta_net = {
      .num_key_heads = 2, .num_value_heads = 6, .key_head_dim = 5, .value_head_dim = 7};
  std::map<std::string, std::size_t> num_matrices;
  for (const auto& block : make_decoder(config, {})) {
    for (const ParameterSpec& parameter : block->parameters()) {
      num_matrices[parameter.name] = parameter_matrices(parameter).size();
    }
  }
  EXPECT_EQ(num_matrices.at("layers.0.delta_net.conv.weight"), 0U);
  EXPECT_EQ(num_matrices.at("layers.0.delta_net.qkvz.weight"), 4U);
  EXPECT_EQ(num_matrices.at("layers.0.delta_net.ba.weight"), 2U);
  EXPECT_EQ(num_matrices.at("layers.0.delta_net.output.weight"), 1U);
  EXPECT_EQ(num_matrices.at("layers.1.attention.qkv.weight"), 3U);
}

TEST(DecoderParameters, ATiedHeadSharesTheEmbedding) {
  DecoderConfig config = small_config();
  config.tied_embeddings = true;
  const auto blocks = make_decoder(config, {});
  EXPECT_EQ(blocks.front()->parameters()[0].name, "embed.weight");
  EXPECT_EQ(blocks.back()->parameters()[1].name, "embed.weight");
  EXPECT_EQ(blocks.size(), 4U);
}

constexpr ParameterEncoding kNf4{DataType::kBFloat16, ParameterEncoding::Format::kNf4};

TEST(DecoderParameters, FrozenWeightsOfProjectionsAloneAreEncoded) {
  DecoderOptions options;
  options.frozen = {"embed.weight", "layers.0.*", "final_norm.*"};
  options.frozen_weights = kNf4;
  options.not_encoded = {"layers.0.mlp.down.weight"};
  for (const auto& block : make_decoder(small_config(), options)) {
    for (const ParameterSpec& parameter : block->parameters()) {
      const bool wanted = parameter.name.starts_with("layers.0.") && parameter.shape.size() == 2 &&
                          parameter.name != "layers.0.mlp.down.weight";
      EXPECT_EQ(parameter.encoding == kNf4, wanted) << parameter.name;
    }
  }
}

TEST(DecoderParameters, AWeightWithATensorOfPartialBlocksIsNotEncoded) {
  ParameterSpec weight{.name = "a", .shape = {6, 64}};
  weight.parts = {{"q", 0, 2}, {"k", 2, 4}};
  EXPECT_TRUE(has_whole_blocks(weight));
  weight.shape = {6, 32};
  EXPECT_TRUE(has_whole_blocks(weight));
  weight.parts = {{"q", 0, 1}, {"k", 1, 5}};
  EXPECT_FALSE(has_whole_blocks(weight));
  weight.shape = {6, 64};
  weight.parts = {{"q", 0, 1, 3, 2}, {"k", 1, 1, 3, 2}};
  EXPECT_FALSE(has_whole_blocks(weight));
}

TEST(DecoderParameters, AnEncodingThatNoFrozenWeightCanHaveIsAnError) {
  DecoderOptions options;
  options.frozen = {"embed.weight"};
  options.frozen_weights = kNf4;
  try {
    make_decoder(small_config(), options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    EXPECT_NE(error.message().find("no weight of a projection is frozen"), std::string::npos);
  }
}

TEST(DecoderParameters, APatternThatFreezesNothingIsAnError) {
  DecoderOptions options;
  options.frozen = {"layers.*", "layer.0.*"};
  try {
    make_decoder(small_config(), options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    EXPECT_NE(error.message().find("'layer.0.*'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace packtrain
