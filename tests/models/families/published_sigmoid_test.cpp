// Configs with the keys that published folders of families with sigmoid routers have.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_sigmoid_test {
namespace {

using test::message_of;
using test::read_and_written;

nlohmann::json minimax_m2() {
  return nlohmann::json::parse(R"({
    "architectures": ["MiniMaxM2ForCausalLM"], "attn_type_list": [1, 1, 1],
    "auto_map": {"AutoConfig": "configuration_minimax_m2.MiniMaxM2Config"}, "head_dim": 128,
    "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 1536,
    "max_position_embeddings": 196608, "model_type": "minimax_m2", "mtp_transformer_layers": 1,
    "num_attention_heads": 48, "num_experts_per_tok": 8, "num_hidden_layers": 3,
    "num_key_value_heads": 8, "num_local_experts": 256, "num_mtp_modules": 3,
    "qk_norm_type": "per_layer", "rms_norm_eps": 1e-06, "rope_theta": 5000000, "rotary_dim": 64,
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "float8_e4m3fn",
                            "quant_method": "fp8", "weight_block_size": [128, 128]},
    "scoring_func": "sigmoid", "shared_intermediate_size": 0, "tie_word_embeddings": false,
    "use_cache": true, "use_mtp": true, "use_qk_norm": true, "use_routing_bias": true,
    "vocab_size": 200064})");
}

TEST(PublishedSigmoid, MinimaxM2TurnsAPartOfEachHead) {
  const DecoderConfig config = read_and_written(minimax_m2());
  EXPECT_EQ(config.resolved_rotary_dim(), 64);
  EXPECT_EQ(config.qk_norm, QkNormKind::kFull);
  EXPECT_TRUE(config.experts.choice_bias);
  EXPECT_EQ(config.experts.intermediate_size, 1536);
}

TEST(PublishedSigmoid, MinimaxM2sFactorMayReplaceTheDimension) {
  nlohmann::json json = minimax_m2();
  json.erase("rotary_dim");
  json["partial_rotary_factor"] = 0.25;
  EXPECT_EQ(read_and_written(json).resolved_rotary_dim(), 32);
  json["rotary_dim"] = 64;
  EXPECT_NE(message_of(json).find("'rotary_dim' is 64, but partial_rotary_factor turns 32"),
            std::string::npos)
      << message_of(json);
}

TEST(PublishedSigmoid, LinearAttentionOfMinimaxIsRefused) {
  nlohmann::json json = minimax_m2();
  json["attn_type_list"] = {0, 1, 1};
  EXPECT_NE(message_of(json).find("'attn_type_list'"), std::string::npos) << message_of(json);
}

TEST(PublishedSigmoid, DotsHasSharedExpertsAfterADenseLayer) {
  const DecoderConfig config = read_and_written(nlohmann::json::parse(R"({
    "architectures": ["Dots1ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "eos_token_id": 151645, "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 10944, "max_position_embeddings": 32768,
    "max_window_layers": 62, "model_type": "dots1", "moe_intermediate_size": 1408,
    "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 2,
    "norm_topk_prob": true, "num_attention_heads": 32, "num_experts_per_tok": 6,
    "num_hidden_layers": 3, "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "rope_theta": 10000000, "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid", "sliding_window": null, "tie_word_embeddings": false,
    "topk_group": 1, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": true,
    "vocab_size": 152064})"));
  EXPECT_FALSE(config.layer(0).experts);
  EXPECT_TRUE(config.layer(1).experts);
  EXPECT_TRUE(config.layer(1).attention.is_full());
  EXPECT_EQ(config.experts.shared_intermediate_size, 2816);
}

// The pattern is a text, which does not count next to layer_types.
TEST(PublishedSigmoid, KExaoneHasWindowsWhereHeadsTurn) {
  nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["ExaoneMoEForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1,
    "eos_token_id": 53, "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 6144, "initializer_range": 0.02, "intermediate_size": 18432,
    "is_moe_layer": [false, true, true, true], "max_position_embeddings": 262144,
    "model_type": "exaone_moe", "moe_intermediate_size": 2048, "n_group": 1,
    "norm_topk_prob": true, "num_attention_heads": 64, "num_experts": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 4, "num_key_value_heads": 8,
    "num_nextn_predict_layers": 1, "num_shared_experts": 1, "pad_token_id": 0,
    "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "sliding_window": 128,
    "sliding_window_pattern": "LLLG", "tie_word_embeddings": false, "topk_group": 1,
    "topk_method": "noaux_tc", "vocab_size": 153600})");
  json["layer_types"] = {"sliding_attention", "sliding_attention", "sliding_attention",
                         "full_attention"};
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.layer(2).attention.window, 128);
  EXPECT_TRUE(config.layer(3).no_rotary);
  EXPECT_FALSE(config.layer(0).experts);
  EXPECT_TRUE(config.layer(3).experts);
  json["is_moe_layer"] = {true, true, true, true};
  EXPECT_NE(message_of(json).find("'is_moe_layer'"), std::string::npos) << message_of(json);
  json["mlp_layer_types"] = {"dense", "sparse", "sparse", "moe"};
  EXPECT_NE(message_of(json).find("'mlp_layer_types' has \"moe\", want \"dense\" or \"sparse\""),
            std::string::npos)
      << message_of(json);
  json["mlp_layer_types"] = {"dense", "sparse"};
  EXPECT_NE(message_of(json).find("'mlp_layer_types' has 2 layers, want 4"), std::string::npos)
      << message_of(json);
}

}  // namespace
}  // namespace packtrain::published_sigmoid_test
