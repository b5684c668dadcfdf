// Configs with the keys that published folders have, of families whose layers have several mixers
// or one branch.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_hybrid_test {
namespace {

using test::message_of;
using test::read_and_written;

// As LFM2-8B-A1B's, with fewer layers.
TEST(PublishedHybrids, LfmTwoWithExpertsAddsAMillionthToTheSumOfWeights) {
  const DecoderConfig config = read_and_written(nlohmann::json::parse(R"({
    "architectures": ["Lfm2MoeForCausalLM"], "model_type": "lfm2_moe", "bos_token_id": 1,
    "conv_L_cache": 3, "conv_bias": false, "dtype": "bfloat16", "eos_token_id": 7,
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 7168,
    "layer_types": ["conv", "conv", "full_attention", "conv"], "max_position_embeddings": 128000,
    "moe_intermediate_size": 1792, "norm_eps": 1e-05, "norm_topk_prob": true,
    "num_attention_heads": 32, "num_dense_layers": 2, "num_experts": 32, "num_experts_per_tok": 4,
    "num_heads": 32, "num_hidden_layers": 4, "num_key_value_heads": 8, "pad_token_id": 0,
    "rope_theta": 1000000.0, "routed_scaling_factor": 1.0, "use_cache": true,
    "use_expert_bias": true, "vocab_size": 65536})"));
  EXPECT_FALSE(config.layer(1).experts);
  EXPECT_TRUE(config.layer(2).experts);
  EXPECT_FALSE(config.layer(2).short_conv);
  EXPECT_EQ(config.experts.sum_epsilon, 1e-6);
  EXPECT_TRUE(config.experts.choice_bias);
  EXPECT_EQ(config.intermediate_size, 7168);
}

// As Nemotron 3 Nano 30B-A3B's, with fewer layers.
nlohmann::json nemotron_3_nano() {
  return nlohmann::json::parse(R"({
    "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "attention_bias": false,
    "attention_dropout": 0.0, "auto_map": {"AutoConfig": "configuration_nemotron_h.NemotronHConfig"},
    "bos_token_id": 1, "chunk_size": 128, "conv_kernel": 4, "eos_token_id": 2, "expand": 2,
    "head_dim": 128, "hidden_dropout": 0.0, "hidden_size": 2688,
    "hybrid_override_pattern": "MEM*E-", "initializer_range": 0.02, "intermediate_size": 1856,
    "layer_norm_epsilon": 1e-05, "mamba_head_dim": 64, "mamba_hidden_act": "silu",
    "mamba_num_heads": 64, "mamba_proj_bias": false, "mamba_ssm_cache_dtype": "float32",
    "max_position_embeddings": 262144, "mlp_bias": false, "mlp_hidden_act": "relu2",
    "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712, "n_group": 1,
    "n_groups": 8, "n_routed_experts": 128, "n_shared_experts": 1, "norm_eps": 1e-05,
    "norm_topk_prob": true, "num_attention_heads": 32, "num_experts_per_tok": 6,
    "num_hidden_layers": 6, "num_key_value_heads": 2, "num_logits_to_keep": 1, "pad_token_id": 0,
    "partial_rotary_factor": 1.0, "rescale_prenorm_residual": true, "residual_in_fp32": false,
    "rope_theta": 10000, "routed_scaling_factor": 2.5, "sliding_window": null,
    "ssm_state_size": 128, "tie_word_embeddings": false, "time_step_floor": 0.0001,
    "time_step_limit": [0.0, {"__float__": "Infinity"}], "time_step_max": 0.1,
    "time_step_min": 0.001, "topk_group": 1, "torch_dtype": "bfloat16", "use_bias": false,
    "use_cache": true, "use_conv_bias": true, "use_mamba_kernels": true, "vocab_size": 131072})");
}

TEST(PublishedHybrids, NemotronThreeHasOneBranchALayer) {
  const DecoderConfig config = read_and_written(nemotron_3_nano());
  EXPECT_TRUE(config.layer(0).mamba2 && config.layer(0).no_mlp);
  EXPECT_TRUE(config.layer(1).experts && config.layer(1).no_mixer);
  EXPECT_TRUE(config.layer(3).has_attention() && config.layer(3).no_mlp);
  EXPECT_TRUE(config.layer(5).no_mixer && !config.layer(5).experts);
  EXPECT_EQ(config.mamba2.width(), 4096);
  EXPECT_EQ(config.mamba2.norm_groups, 8);
  EXPECT_EQ(config.mamba2.min_step, 0.001);
  EXPECT_EQ(config.experts.shared_intermediate_size, 3712);
  EXPECT_FALSE(config.activation.gated);
}

TEST(PublishedHybrids, NemotronHHasNoExpertsWithoutAMarkOfThem) {
  nlohmann::json json = nemotron_3_nano();
  json["hybrid_override_pattern"] = "M-M*-M";
  for (const char* key : {"n_routed_experts", "moe_intermediate_size", "n_shared_experts",
                          "moe_shared_expert_intermediate_size", "num_experts_per_tok"}) {
    json.erase(key);
  }
  EXPECT_EQ(read_and_written(json).experts, ExpertsConfig{});
}

TEST(PublishedHybrids, NemotronHTakesTheNumberOfLayersFromTheirTypes) {
  nlohmann::json json = nemotron_3_nano();
  json.erase("num_hidden_layers");
  EXPECT_EQ(read_and_written(json).num_layers, 6);
  json["num_hidden_layers"] = 5;
  EXPECT_NE(message_of(json).find("num_hidden_layers"), std::string::npos);
}

TEST(PublishedHybrids, UnknownMarksOfNemotronHAreNamed) {
  nlohmann::json json = nemotron_3_nano();
  json["hybrid_override_pattern"] = "MEM*EX";
  EXPECT_NE(message_of(json).find("\"X\""), std::string::npos);
}

// As Falcon-H1-1.5B's, with fewer layers.
TEST(PublishedHybrids, FalconHHasBothMixersInEachLayer) {
  const DecoderConfig config = read_and_written(nlohmann::json::parse(R"({
    "architectures": ["FalconH1ForCausalLM"], "model_type": "falcon_h1", "attention_bias": false,
    "attention_dropout": 0.0, "attention_in_multiplier": 1.0, "attention_out_multiplier": 0.9375,
    "attn_layer_indices": null, "bos_token_id": 1, "embedding_multiplier": 5.656854249492381,
    "eos_token_id": 11, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
    "initializer_range": 0.02, "intermediate_size": 4096, "key_multiplier": 0.390625,
    "lm_head_multiplier": 0.0390625, "mamba_chunk_size": 128, "mamba_conv_bias": true,
    "mamba_d_conv": 4, "mamba_d_head": 64, "mamba_d_ssm": 3072, "mamba_d_state": 256,
    "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 48, "mamba_norm_before_gate": false,
    "mamba_proj_bias": false, "mamba_rms_norm": false, "mamba_use_mlp": true, "mlp_bias": false,
    "mlp_expansion_factor": 8, "mlp_multipliers": [0.8838834764831844, 0.5859375],
    "num_attention_heads": 8, "num_hidden_layers": 2, "num_key_value_heads": 2,
    "num_logits_to_keep": 1, "max_position_embeddings": 131072, "pad_token_id": 0,
    "projectors_bias": false, "rms_norm_eps": 1e-05, "rope_scaling": null,
    "rope_theta": 100000000000.0, "ssm_in_multiplier": 1.25,
    "ssm_multipliers": [0.35, 0.25, 0.36, 0.5, 0.34], "ssm_out_multiplier": 0.23570226039551587,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
    "vocab_size": 65537})"));
  EXPECT_TRUE(config.layer(1).parallel_mamba2 && config.layer(1).has_attention());
  EXPECT_TRUE(config.has_other_mixers());
  EXPECT_FALSE(config.mamba2.has_norm);
  EXPECT_EQ(config.mamba2.width(), 3072);
  EXPECT_EQ(config.mamba2.max_step, std::numeric_limits<double>::infinity());
  EXPECT_EQ(config.multipliers.mamba2_parts[3], 0.5);
  EXPECT_EQ(config.multipliers.scores(), 0.390625);
}

}  // namespace
}  // namespace packtrain::published_hybrid_test
