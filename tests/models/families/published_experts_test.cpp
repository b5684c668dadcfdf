// Configs with the keys that published folders of families with experts have.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_experts_test {
namespace {

using test::message_of;
using test::read_and_written;

void expect_refused(nlohmann::json json, const std::string& key, const nlohmann::json& value) {
  json[key] = value;
  EXPECT_NE(message_of(json).find("'" + key + "'"), std::string::npos) << message_of(json);
}

nlohmann::json ernie() {
  return nlohmann::json::parse(R"({
    "architectures": ["Ernie4_5_MoeForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 2560, "intermediate_size": 12288,
    "max_position_embeddings": 131072, "model_type": "ernie4_5_moe", "moe_capacity": [64, 64, 64],
    "moe_gate": "topk", "moe_intermediate_size": 1536, "moe_k": 6, "moe_layer_end_index": 29,
    "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_num_experts": 64,
    "moe_num_shared_experts": 2, "moe_use_aux_free": true, "num_attention_heads": 20,
    "num_hidden_layers": 4, "num_key_value_heads": 4, "pad_token_id": 0, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "rope_theta": 500000.0, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "use_bias": false, "use_cache": false, "vocab_size": 103424})");
}

TEST(PublishedExperts, ErnieHasABiasOfTheChoiceAfterADenseLayer) {
  const DecoderConfig config = read_and_written(ernie());
  EXPECT_EQ(config.experts.router, RouterKind::kSoftmax);
  EXPECT_TRUE(config.experts.choice_bias);
  EXPECT_EQ(config.experts.shared_intermediate_size, 3072);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_FALSE(config.layer(0).experts);
  EXPECT_TRUE(config.layer(3).experts);
}

TEST(PublishedExperts, ErniesLayersWithExpertsAreBetweenTwoAtAnInterval) {
  nlohmann::json json = ernie();
  json["num_hidden_layers"] = 9;
  json["moe_layer_start_index"] = 2;
  json["moe_layer_interval"] = 3;
  const auto expect_layers = [&](std::int64_t last, const std::vector<bool>& want) {
    json["moe_layer_end_index"] = last;
    const DecoderConfig config = read_and_written(json);
    for (std::size_t layer = 0; layer < want.size(); ++layer) {
      EXPECT_EQ(config.layer(static_cast<std::int64_t>(layer)).experts, want[layer]) << layer;
    }
  };
  expect_layers(-1, {false, false, true, false, false, true, false, false, true});
  expect_layers(7, {false, false, true, false, false, true, false, false, false});
  expect_layers(4, {false, false, true, false, false, false, false, false, false});
  expect_layers(1, {false, false, false, false, false, false, false, false, false});
}

TEST(PublishedExperts, OtherRoutersOfErnieAreRefused) {
  expect_refused(ernie(), "output_router_logits", true);
  expect_refused(ernie(), "moe_gate", "top2");
  expect_refused(ernie(), "moe_use_aux_free", false);
}

nlohmann::json hunyuan_a13b() {
  return nlohmann::json::parse(R"({
    "architectures": ["HunYuanMoEV1ForCausalLM"], "attention_bias": false,
    "attention_dropout": 0.0, "attention_head_dim": 128, "cla_share_factor": 2, "class_num": 0,
    "dense_list": [4096, 0], "eod_token_id": 127967, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 3072,
    "kv_lora_rank": null, "max_position_embeddings": 32768, "mlp_bias": false,
    "model_type": "hunyuan_v1_moe", "moe_drop_tokens": false,
    "moe_intermediate_size": [3072, 3072], "moe_layer_num_skipped": 0,
    "moe_random_routing_dropped_token": false, "moe_topk": [8, 8], "n_group": false,
    "norm_topk_prob": true, "norm_type": "rms", "num_attention_heads": 32, "num_experts": 64,
    "num_hidden_layers": 2, "num_key_value_heads": 8, "num_shared_expert": [1, 1],
    "org_vocab_size": 128167, "pool_type": "last", "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0,
                     "mscale": 1.0, "mscale_all_dim": 0.0, "type": "dynamic"},
    "rope_theta": 10000.0, "routed_scaling_factor": false, "tie_word_embeddings": true,
    "topk_group": false, "use_cla": false, "use_mixed_mlp_moe": true, "use_mla": false,
    "use_qk_norm": true, "use_rotary_pos_emb": true, "v_head_dim": null, "vocab_size": 128167})");
}

TEST(PublishedExperts, HunyuanHasOneSharedExpertOfTheWidthOfTheOthers) {
  const DecoderConfig config = read_and_written(hunyuan_a13b());
  EXPECT_EQ(config.experts.experts_per_token, 8);
  EXPECT_EQ(config.experts.intermediate_size, 3072);
  EXPECT_EQ(config.experts.shared_intermediate_size, 3072);
  EXPECT_EQ(config.qk_norm, QkNormKind::kTurnedHead);
  EXPECT_TRUE(config.layer(0).experts);
}

TEST(PublishedExperts, LayersOfHunyuanWithOtherNumbersAreRefused) {
  expect_refused(hunyuan_a13b(), "moe_topk", {8, 4});
  expect_refused(hunyuan_a13b(), "moe_topk", 65);
  expect_refused(hunyuan_a13b(), "num_shared_expert", {2, 2});
  expect_refused(hunyuan_a13b(), "moe_intermediate_size", {1536, 1536});
  expect_refused(hunyuan_a13b(), "moe_layer_num_skipped", 1);
  expect_refused(hunyuan_a13b(), "use_mixed_mlp_moe", false);
}

TEST(PublishedExperts, SolarOpenHasNoLayerWithAnMlpAlone) {
  nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["SolarOpenForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "first_k_dense_replace": 0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
    "initializer_range": 0.02, "intermediate_size": 10240, "max_position_embeddings": 131072,
    "model_type": "solar_open", "moe_intermediate_size": 1280, "n_group": 1,
    "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true,
    "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 2,
    "num_key_value_heads": 8, "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 2.0, "original_max_position_embeddings": 65536, "type": "yarn"},
    "rope_theta": 1000000, "routed_scaling_factor": 1.0, "tie_word_embeddings": false,
    "topk_group": 1, "use_cache": true, "use_qk_norm": false, "vocab_size": 196608})");
  const DecoderConfig config = read_and_written(json);
  EXPECT_TRUE(config.layer(0).experts);
  EXPECT_EQ(config.intermediate_size, 0);
  EXPECT_EQ(config.rotary.scaling.kind, RotaryScaling::Kind::kYarn);
  expect_refused(json, "first_k_dense_replace", 1);
  expect_refused(json, "use_qk_norm", true);
}

nlohmann::json trinity_mini() {
  return nlohmann::json::parse(R"({
    "architectures": ["AfmoeForCausalLM"], "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_afmoe.AfmoeConfig"},
    "global_attn_every_n_layers": 4, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
    "initializer_range": 0.02, "intermediate_size": 6144, "load_balance_coeff": 0.001,
    "max_position_embeddings": 131072, "model_type": "afmoe", "moe_intermediate_size": 1024,
    "mup_enabled": true, "n_group": 1, "num_attention_heads": 32, "num_dense_layers": 2,
    "num_expert_groups": 1, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 4,
    "num_key_value_heads": 4, "num_limited_groups": 1, "num_shared_experts": 1,
    "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000, "route_norm": true,
    "route_scale": 2.826, "score_func": "sigmoid", "sliding_window": 2048,
    "tie_word_embeddings": false, "topk_group": 1, "use_cache": true, "use_grouped_mm": true,
    "vocab_size": 200192})");
}

TEST(PublishedExperts, TrinityTurnsWhereItHasWindows) {
  const DecoderConfig config = read_and_written(trinity_mini());
  EXPECT_TRUE(config.attention_gate);
  EXPECT_TRUE(config.norm_before && config.norm_after);
  EXPECT_DOUBLE_EQ(config.embedding_multiplier, std::sqrt(2048.0));
  EXPECT_EQ(config.layer(2).attention.window, 2048);
  EXPECT_FALSE(config.layer(2).no_rotary);
  EXPECT_TRUE(config.layer(3).attention.is_full());
  EXPECT_TRUE(config.layer(3).no_rotary);
  EXPECT_FALSE(config.layer(1).experts);
  EXPECT_TRUE(config.layer(2).experts);
}

TEST(PublishedExperts, WhatTrinitysOwnCodeComputesElseIsRefused) {
  expect_refused(trinity_mini(), "score_func", "softmax");
  expect_refused(trinity_mini(), "route_norm", false);
  expect_refused(trinity_mini(), "num_expert_groups", 2);
  expect_refused(trinity_mini(), "attention_bias", true);
}

}  // namespace
}  // namespace packtrain::published_experts_test
