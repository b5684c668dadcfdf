// Configs with the keys that published folders of Hunyuan's dense models have.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain::published_hunyuan_test {
namespace {

using test::message_of;
using test::read_and_written;

nlohmann::json hunyuan() {
  return nlohmann::json::parse(R"({
    "add_classification_head": false, "architectures": ["HunYuanDenseV1ForCausalLM"],
    "attention_bias": false, "attention_dropout": 0.0, "attention_head_dim": 128,
    "bos_token_id": 1, "cla_share_factor": 2, "class_num": 0, "dense_list": [2048, 0],
    "eod_token_id": 120020, "eos_token_id": 120020, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 2048, "im_end_id": 5, "im_newline_id": 11, "im_start_id": 4,
    "initializer_range": 0.02, "intermediate_size": 6144, "mask_init_id": 12,
    "max_position_embeddings": 32768, "mlp_bias": false, "model_type": "hunyuan_v1_dense",
    "norm_type": "rms", "num_attention_heads": 16, "num_experts": 1, "num_hidden_layers": 2,
    "num_key_value_heads": 4, "org_vocab_size": 120818, "pad_id": 120002, "pad_token_id": 120002,
    "pool_type": "last", "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0,
                     "mscale": 1.0, "mscale_all_dim": 0.0, "type": "dynamic"},
    "rope_theta": 10000.0, "sep_token_id": 4, "text_end_id": 7, "text_start_id": 6,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true, "use_cla": false,
    "use_qk_norm": true, "use_rotary_pos_emb": true, "vocab_size": 120818})");
}

TEST(PublishedHunyuan, HaveALargerBaseAndNormsOfTurnedHeads) {
  const DecoderConfig config = read_and_written(hunyuan());
  EXPECT_EQ(config.qk_norm, QkNormKind::kTurnedHead);
  EXPECT_DOUBLE_EQ(config.rotary.base, 1e4 * std::pow(1000.0, 128.0 / 126));
  EXPECT_EQ(config.rotary.scaling, RotaryScaling{});
  EXPECT_TRUE(config.tied_embeddings);
}

TEST(PublishedHunyuan, WithoutAlphaTheTypeIsThatOfOtherFamilies) {
  nlohmann::json json = hunyuan();
  json["rope_scaling"]["alpha"] = nullptr;
  json["rope_scaling"]["factor"] = 2.0;
  for (const char* key : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) {
    json["rope_scaling"].erase(key);
  }
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.rotary.base, 1e4);
  EXPECT_EQ(config.rotary.scaling.kind, RotaryScaling::Kind::kDynamic);
  EXPECT_EQ(config.rotary.scaling.factor, 2);
}

TEST(PublishedHunyuan, WhatTransformersDoesNotComputeIsRefusedByName) {
  const auto refused = [](const std::string& key, const nlohmann::json& value) {
    nlohmann::json json = hunyuan();
    json[key] = value;
    EXPECT_NE(message_of(json).find("'" + key + "'"), std::string::npos) << key;
  };
  refused("use_qk_norm", false);
  refused("use_cla", true);
  refused("num_experts", 8);
  refused("norm_type", "layer");
  refused("attention_head_dim", 64);
}

}  // namespace
}  // namespace packtrain::published_hunyuan_test
