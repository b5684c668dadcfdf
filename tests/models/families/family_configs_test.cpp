// Config files of single families: Qwen2, DBRX, Gemma 2 and Mistral.
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain {
namespace {

using test::message_of;

nlohmann::json qwen2() {
  return nlohmann::json::parse(R"({
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "torch_dtype": "bfloat16",
    "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
    "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
    "tie_word_embeddings": true, "attention_dropout": 0.0, "use_cache": true,
    "max_window_layers": 24, "sliding_window": 32768, "use_sliding_window": false,
    "use_mrope": false, "bos_token_id": 151643, "eos_token_id": 151643,
    "initializer_range": 0.02, "transformers_version": "4.40.1"})");
}

TEST(Qwen2Config, HasBiasesOnQueriesKeysAndValuesAlone) {
  const DecoderConfig config = parse_decoder_config(qwen2().dump());
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.attention_output_bias);
  EXPECT_FALSE(config.mlp_bias);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.rotary.base, 1e6);
}

TEST(Qwen2Config, IsWrittenAsItIsRead) {
  const DecoderConfig config = parse_decoder_config(qwen2().dump());
  EXPECT_EQ(parse_decoder_config(find_family("qwen2").write(config).dump()), config);
}

std::vector<std::int64_t> windows_of(const nlohmann::json& json) {
  const DecoderConfig config = parse_decoder_config(json.dump());
  std::vector<std::int64_t> windows;
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    windows.push_back(config.layer(layer).attention.window);
  }
  EXPECT_EQ(parse_decoder_config(find_family(config.family).write(config).dump()), config);
  return windows;
}

TEST(Qwen2Config, WindowsAreThoseOfTheLastLayersOrOfLayerTypes) {
  nlohmann::json config = qwen2();
  config["num_hidden_layers"] = 3;
  EXPECT_EQ(windows_of(config), std::vector<std::int64_t>(3, 0));  // use_sliding_window: false
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 2;
  EXPECT_EQ(windows_of(config), (std::vector<std::int64_t>{0, 0, 32768}));
  config["max_window_layers"] = 0;
  EXPECT_EQ(windows_of(config), std::vector<std::int64_t>(3, 32768));
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(windows_of(config), (std::vector<std::int64_t>{32768, 0, 32768}));
  config.erase("sliding_window");  // transformers' fallback
  EXPECT_EQ(windows_of(config), (std::vector<std::int64_t>{4096, 0, 4096}));
}

TEST(Qwen2Config, RefusesLayerTypesThatItDoesNotKnow) {
  nlohmann::json config = qwen2();
  config["layer_types"] = std::vector<std::string>(24, "sliding_attention");
  EXPECT_NE(message_of(config).find("'layer_types'"), std::string::npos);  // without a window
  config["use_sliding_window"] = true;
  EXPECT_EQ(message_of(config), "no error");
  config["layer_types"][5] = "chunked_attention";
  EXPECT_NE(message_of(config).find("chunked_attention"), std::string::npos);
  config["layer_types"] = {"full_attention"};
  EXPECT_NE(message_of(config).find("has 1 layers, want 24"), std::string::npos);
  config["layer_types"] = 24;
  EXPECT_NE(message_of(config).find("want a list of strings"), std::string::npos);
}

// DBRX as published, smaller.
nlohmann::json dbrx() {
  return nlohmann::json::parse(R"({
    "architectures": ["DbrxForCausalLM"], "model_type": "dbrx", "vocab_size": 100352, "d_model": 96,
    "n_heads": 6, "n_layers": 2, "max_seq_len": 32768, "initializer_range": 0.02,
    "attn_config": {"clip_qkv": 8, "kv_n_heads": 2, "model_type": "", "rope_theta": 500000},
    "ffn_config": {"ffn_hidden_size": 40, "model_type": "", "moe_jitter_eps": 0,
                   "moe_loss_weight": 0.05, "moe_num_experts": 16, "moe_top_k": 4},
    "output_router_logits": false, "router_aux_loss_coef": 0.05, "emb_pdrop": 0.0,
    "resid_pdrop": 0.0, "tie_word_embeddings": false, "use_cache": true})");
}

TEST(DbrxConfig, NormalizesWeightsOfExpertsByDefault) {
  nlohmann::json config = dbrx();
  EXPECT_TRUE(parse_decoder_config(config.dump()).experts.normalize_weights);
  config["ffn_config"]["moe_normalize_expert_weights"] = 1.0;
  EXPECT_TRUE(parse_decoder_config(config.dump()).experts.normalize_weights);
  config["ffn_config"]["moe_normalize_expert_weights"] = nullptr;
  EXPECT_FALSE(parse_decoder_config(config.dump()).experts.normalize_weights);
}

TEST(DbrxConfig, WeighsTheBalancingLossByItsExpertsConfig) {
  nlohmann::json config = dbrx();
  config["router_aux_loss_coef"] = 0.01;
  EXPECT_NE(message_of(config).find("'router_aux_loss_coef'"), std::string::npos);
}

// Gemma-2-9B and -27B have it twice.
TEST(Gemma2Config, TheOtherNameOfTheWindowMustSayTheSame) {
  nlohmann::json config = nlohmann::json::parse(R"({
    "model_type": "gemma2", "vocab_size": 33, "hidden_size": 12, "intermediate_size": 20,
    "num_hidden_layers": 2, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 6,
    "sliding_window": 4096, "sliding_window_size": 4096})");
  EXPECT_EQ(message_of(config), "no error");
  config["sliding_window_size"] = 512;
  EXPECT_NE(message_of(config).find("'sliding_window_size'"), std::string::npos);
}

// Mistral-7B v0.1
nlohmann::json mistral() {
  return nlohmann::json::parse(R"({
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "torch_dtype": "bfloat16",
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "hidden_act": "silu",
    "max_position_embeddings": 32768, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "sliding_window": 4096, "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2,
    "initializer_range": 0.02, "use_cache": true, "transformers_version": "4.34.0.dev0"})");
}

TEST(MistralConfig, IsWrittenAsItIsRead) {
  const DecoderConfig config = parse_decoder_config(mistral().dump());
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(parse_decoder_config(find_family("mistral").write(config).dump()), config);
}

TEST(MistralConfig, HasAWindowInAllLayersUnlessItIsNull) {
  nlohmann::json config = mistral();
  config["sliding_window"] = 1000;
  EXPECT_EQ(windows_of(config), std::vector<std::int64_t>(32, 1000));
  config["sliding_window"] = nullptr;
  EXPECT_EQ(windows_of(config), std::vector<std::int64_t>(32, 0));
  config.erase("sliding_window");  // transformers' fallback
  EXPECT_EQ(windows_of(config), std::vector<std::int64_t>(32, 4096));
}

TEST(MistralConfig, RefusesWhatLlamaAloneHas) {
  nlohmann::json config = mistral();
  config["attention_bias"] = true;
  EXPECT_NE(message_of(config).find("'attention_bias'"), std::string::npos);
}

}  // namespace
}  // namespace packtrain
