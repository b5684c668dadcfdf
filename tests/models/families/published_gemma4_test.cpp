// Configs with the keys that published folders of Gemma 4 have.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/decoder/parameters.h"
#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_gemma4_test {
namespace {

using test::message_of;
using test::read_and_written;

// As the text_config of 26B-A4B, with fewer layers.
nlohmann::json with_experts() {
  return nlohmann::json::parse(R"({
    "attention_bias": false, "attention_dropout": 0.0, "attention_k_eq_v": true,
    "bos_token_id": 2, "dtype": "bfloat16", "enable_moe_block": true, "eos_token_id": 1,
    "final_logit_softcapping": 30.0, "global_head_dim": 512, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2816,
    "hidden_size_per_layer_input": 0, "initializer_range": 0.02, "intermediate_size": 2112,
    "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
                    "sliding_attention", "sliding_attention", "full_attention"],
    "max_position_embeddings": 262144, "model_type": "gemma4_text", "moe_intermediate_size": 704,
    "num_attention_heads": 16, "num_experts": 128, "num_global_key_value_heads": 2,
    "num_hidden_layers": 6, "num_key_value_heads": 8, "num_kv_shared_layers": 0,
    "pad_token_id": 0, "rms_norm_eps": 1e-06,
    "rope_parameters": {
      "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0,
                         "rope_type": "proportional"},
      "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
    "sliding_window": 1024, "tie_word_embeddings": true, "top_k_experts": 8,
    "use_bidirectional_attention": "vision", "use_cache": true, "use_double_wide_mlp": false,
    "vocab_size": 262144, "vocab_size_per_layer_input": 262144})");
}

TEST(PublishedGemma4, Of26BHaveExpertsNextToTheMlpOfEachLayer) {
  const DecoderConfig config = read_and_written(with_experts());
  for (std::int64_t layer = 0; layer < 6; ++layer) EXPECT_TRUE(config.layer(layer).experts);
  const ExpertsConfig& experts = config.experts;
  EXPECT_TRUE(experts.next_to_mlp && experts.router_norm && experts.expert_scale);
  EXPECT_TRUE(experts.normalize_weights);
  EXPECT_EQ(experts.num_experts, 128);
  EXPECT_EQ(experts.experts_per_token, 8);
  EXPECT_EQ(experts.intermediate_size, 704);
  EXPECT_EQ(config.intermediate_size, 2112);
  EXPECT_DOUBLE_EQ(experts.logit_multiplier, 1 / std::sqrt(2816.0));
}

// 26B in 30 layers: the embedding, and five times the six layers.
TEST(PublishedGemma4, Of26BHaveTheParametersThatTheirNameSays) {
  const DecoderConfig config = parse_decoder_config(with_experts().dump());
  std::int64_t of_layers = 0;
  for (std::int64_t layer = 0; layer < 6; ++layer) {
    for (const ParameterSpec& spec : layer_parameters(config, layer)) {
      std::int64_t count = 1;
      for (const std::int64_t size : spec.shape) count *= size;
      of_layers += count;
    }
  }
  const double billions = static_cast<double>(5 * of_layers + 262144 * 2816) / 1e9;
  EXPECT_GT(billions, 25);
  EXPECT_LT(billions, 26.5);
}

TEST(PublishedGemma4, SizesOfExpertsMustBeSetWhereThereAreExperts) {
  for (const char* key : {"num_experts", "top_k_experts", "moe_intermediate_size"}) {
    nlohmann::json json = with_experts();
    json.erase(key);
    EXPECT_NE(message_of(json).find("'" + std::string(key) + "'"), std::string::npos) << key;
  }
}

TEST(PublishedGemma4, SizesOfExpertsDoNotCountWhereThereAreNone) {
  nlohmann::json json = with_experts();
  json["enable_moe_block"] = false;
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.experts, ExpertsConfig{});
  for (std::int64_t layer = 0; layer < 6; ++layer) EXPECT_FALSE(config.layer(layer).experts);
}

}  // namespace
}  // namespace packtrain::published_gemma4_test
