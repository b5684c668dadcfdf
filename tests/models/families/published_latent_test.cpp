// Configs with the keys that published folders of families with latent attention have.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_latent_test {
namespace {

using test::message_of;
using test::read_and_written;

nlohmann::json deepseek_v2() {
  return nlohmann::json::parse(R"({
    "architectures": ["DeepseekV2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV2Config"}, "aux_loss_alpha": 0.001,
    "bos_token_id": 100000, "eos_token_id": 100001, "ep_size": 1, "first_k_dense_replace": 1,
    "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02,
    "intermediate_size": 12288, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "model_type": "deepseek_v2", "moe_intermediate_size": 1536, "moe_layer_freq": 1, "n_group": 8,
    "n_routed_experts": 160, "n_shared_experts": 2, "norm_topk_prob": false,
    "num_attention_heads": 128, "num_experts_per_tok": 6, "num_hidden_layers": 3,
    "num_key_value_heads": 128, "pretraining_tp": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
    "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
                     "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096,
                     "type": "yarn"},
    "rope_theta": 10000, "routed_scaling_factor": 16.0, "scoring_func": "softmax", "seq_aux": true,
    "tie_word_embeddings": false, "topk_group": 3, "topk_method": "group_limited_greedy",
    "torch_dtype": "bfloat16", "transformers_version": "4.39.3", "use_cache": true,
    "v_head_dim": 128, "vocab_size": 102400})");
}

TEST(PublishedLatent, DeepSeekV2ScalesScoresByYarnAndChoosesThreeOfEightGroups) {
  const DecoderConfig config = read_and_written(deepseek_v2());
  EXPECT_EQ(config.head_dim, 192);
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_EQ(config.value_head_dim(0), 128);
  EXPECT_EQ(config.latent.query_rank, 1536);
  EXPECT_TRUE(config.interleaved_rotary);
  EXPECT_EQ(config.rotary.scaling.attention_factor, 1.0);
  const double mscale = 0.1 * 0.707 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(config.attention_scale, mscale * mscale / std::sqrt(192.0));
  EXPECT_EQ(config.experts.num_groups, 8);
  EXPECT_EQ(config.experts.groups_per_token, 3);
  EXPECT_EQ(config.experts.weight_multiplier, 16.0);
  EXPECT_EQ(config.experts.shared_intermediate_size, 3072);
  EXPECT_FALSE(config.layer(0).experts);
  EXPECT_TRUE(config.layer(1).experts);
}

// V2-Lite has whole queries and no groups.
TEST(PublishedLatent, DeepSeekV2LiteProjectsWholeQueries) {
  nlohmann::json json = deepseek_v2();
  json.update({{"hidden_size", 2048},
               {"num_attention_heads", 16},
               {"num_key_value_heads", 16},
               {"q_lora_rank", nullptr},
               {"n_routed_experts", 64},
               {"n_group", 1},
               {"topk_group", 1},
               {"topk_method", "greedy"}});
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.latent.query_rank, 0);
  EXPECT_EQ(config.experts.num_groups, 1);
}

// Its files have a further layer, which predicts tokens, and weights of 8-bit floats.
TEST(PublishedLatent, DeepSeekV3IsReadWithItsQuantization) {
  nlohmann::json json = deepseek_v2();
  json.erase("aux_loss_alpha");
  json.update({{"model_type", "deepseek_v3"},
               {"hidden_size", 7168},
               {"n_routed_experts", 256},
               {"n_shared_experts", 1},
               {"norm_topk_prob", true},
               {"num_experts_per_tok", 8},
               {"num_nextn_predict_layers", 1},
               {"quantization_config",
                {{"activation_scheme", "dynamic"},
                 {"fmt", "e4m3"},
                 {"quant_method", "fp8"},
                 {"weight_block_size", {128, 128}}}},
               {"routed_scaling_factor", 2.5},
               {"scoring_func", "sigmoid"},
               {"topk_group", 4},
               {"topk_method", "noaux_tc"}});
  const DecoderConfig config = read_and_written(json);
  EXPECT_TRUE(config.experts.choice_bias);
  EXPECT_TRUE(config.experts.normalize_weights);
  EXPECT_EQ(config.experts.groups_per_token, 4);
}

TEST(PublishedLatent, Glm47FlashHasExpertsFromTheSecondLayerOn) {
  const nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["Glm4MoeLiteForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "pad_token_id": 154820, "eos_token_id": [154820, 154827, 154829], "hidden_act": "silu",
    "hidden_size": 2048, "intermediate_size": 10240, "max_position_embeddings": 202752,
    "model_type": "glm4_moe_lite", "moe_intermediate_size": 1536, "topk_method": "noaux_tc",
    "norm_topk_prob": true, "num_attention_heads": 20, "n_group": 1, "topk_group": 1,
    "n_routed_experts": 64, "n_shared_experts": 1, "routed_scaling_factor": 1.8,
    "num_experts_per_tok": 4, "first_k_dense_replace": 1, "num_hidden_layers": 4,
    "num_key_value_heads": 20, "num_nextn_predict_layers": 1, "partial_rotary_factor": 1.0,
    "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 1000000,
    "tie_word_embeddings": false, "dtype": "bfloat16", "q_lora_rank": 768, "kv_lora_rank": 512,
    "qk_nope_head_dim": 192, "qk_rope_head_dim": 64, "v_head_dim": 256, "vocab_size": 154880})");
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.value_head_dim(0), config.head_dim);
  EXPECT_EQ(config.attention_scale, 0);
  EXPECT_FALSE(config.layer(0).experts);
  EXPECT_TRUE(config.layer(1).experts);
}

TEST(PublishedLatent, SparseIndexersAreRefusedByName) {
  for (const char* type : {"deepseek_v32", "glm_moe_dsa"}) {
    nlohmann::json json = deepseek_v2();
    json["model_type"] = type;
    json["index_topk"] = 2048;
    const std::string message = message_of(json);
    EXPECT_NE(message.find(type), std::string::npos) << message;
    EXPECT_NE(message.find("an indexer chooses the keys"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace packtrain::published_latent_test
