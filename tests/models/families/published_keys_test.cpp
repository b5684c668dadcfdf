// Configs with the keys that published folders have.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "models/families/family.h"
#include "tests/models/llama_config.h"

namespace packtrain {
namespace {

using test::message_of;
using test::read_and_written;

nlohmann::json smollm3() {
  return nlohmann::json::parse(R"({
    "architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3", "attention_bias": false,
    "attention_dropout": 0.0, "eos_token_id": 128012, "hidden_act": "silu", "hidden_size": 2048,
    "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 65536,
    "max_window_layers": 28, "mlp_bias": false, "no_rope_layer_interval": 4,
    "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0], "num_attention_heads": 16, "num_hidden_layers": 8,
    "num_key_value_heads": 4, "pretraining_tp": 2, "rms_norm_eps": 1e-06, "rope_scaling": null,
    "rope_theta": 5000000.0, "sliding_window": null, "use_cache": false,
    "use_sliding_window": false, "vocab_size": 128256})");
}

TEST(PublishedKeys, OfSmolLm3LeaveEveryFourthLayerWithoutRotary) {
  const DecoderConfig config = read_and_written(smollm3());
  for (std::int64_t layer = 0; layer < 8; ++layer) {
    EXPECT_EQ(config.layer(layer).no_rotary, layer % 4 == 3) << layer;
  }
  EXPECT_TRUE(config.tied_embeddings);
  nlohmann::json short_list = smollm3();
  short_list["no_rope_layers"] = {1, 0};
  EXPECT_NE(message_of(short_list).find("'no_rope_layers' has 2 layers, want 8"),
            std::string::npos);
}

// The pattern of EXAONE-4.0-32B is a text, which does not count next to layer_types.
TEST(PublishedKeys, OfExaone4HaveWindowsWhereHeadsTurn) {
  nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["Exaone4ForCausalLM"], "model_type": "exaone4", "attention_dropout": 0.0,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120, "initializer_range": 0.02,
    "intermediate_size": 27392, "max_position_embeddings": 131072, "num_attention_heads": 40,
    "num_hidden_layers": 4, "num_key_value_heads": 8, "pad_token_id": 0, "rms_norm_eps": 1e-05,
    "rope_scaling": {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "rope_theta": 1000000, "sliding_window": 4096, "sliding_window_pattern": "LLLG",
    "tie_word_embeddings": false, "vocab_size": 102400})");
  json["layer_types"] = {"sliding_attention", "sliding_attention", "sliding_attention",
                         "full_attention"};
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.layer(2).attention.window, 4096);
  EXPECT_FALSE(config.layer(2).no_rotary);
  EXPECT_TRUE(config.layer(3).attention.is_full());
  EXPECT_TRUE(config.layer(3).no_rotary);
}

nlohmann::json command_r7b() {
  return nlohmann::json::parse(R"({
    "architectures": ["Cohere2ForCausalLM"], "model_type": "cohere2", "attention_bias": false,
    "attention_dropout": 0.0, "cache_implementation": "hybrid", "head_dim": 128,
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 14336, "layer_norm_eps": 1e-05, "layer_switch": 4, "logit_scale": 0.25,
    "max_position_embeddings": 132096, "num_attention_heads": 32, "num_hidden_layers": 4,
    "num_key_value_heads": 8, "order_of_interleaved_layers": "local_attn_first",
    "pad_token_id": 0, "position_embedding_type": "rope_gptj", "rope_scaling": null,
    "rope_theta": 50000, "rotary_pct": 1.0, "sliding_window": 4096, "sliding_window_pattern": 4,
    "use_embedding_sharing": true, "use_gated_activation": true, "use_parallel_block": true,
    "use_parallel_embedding": false, "use_qk_norm": false, "vocab_size": 256000})");
}

TEST(PublishedKeys, OfCommandR7bAreReadWithThoseOfCoheresOwnCode) {
  const DecoderConfig config = read_and_written(command_r7b());
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.logit_multiplier, 0.25);
  EXPECT_TRUE(config.layer(3).no_rotary);
  const nlohmann::json others = {
      {"layer_switch", 2}, {"use_parallel_block", false}, {"position_embedding_type", "rope_neox"}};
  for (const auto& [key, value] : others.items()) {
    nlohmann::json json = command_r7b();
    json[key] = value;
    EXPECT_NE(message_of(json).find("'" + key + "'"), std::string::npos) << key;
  }
}

TEST(PublishedKeys, OfMinistral3SetTheTemperatureOfQueries) {
  const nlohmann::json text = nlohmann::json::parse(R"({
    "model_type": "ministral3", "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 3072, "initializer_range": 0.02, "intermediate_size": 9216,
    "max_position_embeddings": 262144, "num_attention_heads": 32, "num_hidden_layers": 26,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_parameters": {
      "beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1,
      "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16384,
      "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"},
    "sliding_window": null, "use_cache": true, "vocab_size": 131072})");
  const DecoderConfig config =
      read_and_written({{"model_type", "mistral3"}, {"text_config", text}});
  EXPECT_EQ(config.query_temperature, (QueryTemperature{.beta = 0.1, .num_positions = 16384}));
  EXPECT_EQ(config.rotary.scaling.attention_factor, 1.0);
}

TEST(PublishedKeys, OfQwen3VlAreThoseOfQwen3ForText) {
  const nlohmann::json text = nlohmann::json::parse(R"({
    "model_type": "qwen3_vl_text", "attention_bias": false, "attention_dropout": 0.0,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 2560, "initializer_range": 0.02,
    "intermediate_size": 9728, "max_position_embeddings": 262144, "num_attention_heads": 32,
    "num_hidden_layers": 36, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
    "rope_scaling": {"mrope_interleaved": true, "mrope_section": [24, 20, 20],
                     "rope_type": "default"},
    "rope_theta": 5000000, "tie_word_embeddings": true, "use_cache": true, "vocab_size": 151936})");
  const DecoderConfig config =
      read_and_written({{"model_type", "qwen3_vl"}, {"text_config", text}});
  EXPECT_EQ(config.family, "qwen3");
  EXPECT_EQ(config.rotary.base, 5e6);
  EXPECT_EQ(config.rotary.scaling, RotaryScaling{});
  EXPECT_TRUE(config.tied_embeddings);
}

TEST(PublishedKeys, OfGptNeox20bAndPythiaAreRead) {
  const nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "attention_dropout": 0,
    "attention_probs_dropout_prob": 0, "bos_token_id": 0, "eos_token_id": 0,
    "hidden_act": "gelu_fast", "hidden_dropout": 0, "hidden_dropout_prob": 0, "hidden_size": 6144,
    "initializer_range": 0.02, "intermediate_size": 24576, "layer_norm_eps": 1e-05,
    "max_position_embeddings": 2048, "num_attention_heads": 64, "num_hidden_layers": 44,
    "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
    "use_cache": true, "use_parallel_residual": true, "vocab_size": 50432})");
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.resolved_rotary_dim(), 24);
  EXPECT_EQ(config.residual, ResidualKind::kParallelTwoNorms);
}

// As GLM-4.5-Air's, with fewer layers. Its files have a further layer, which predicts tokens.
TEST(PublishedKeys, OfGlm45HaveDenseLayersBeforeThoseOfExperts) {
  const nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "attention_bias": true,
    "attention_dropout": 0.0, "eos_token_id": [151329, 151336, 151338], "first_k_dense_replace": 1,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
    "intermediate_size": 10944, "max_position_embeddings": 131072, "moe_intermediate_size": 1408,
    "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true,
    "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 3,
    "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "pad_token_id": 151329,
    "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_scaling": null,
    "rope_theta": 1000000, "routed_scaling_factor": 1.0, "tie_word_embeddings": false,
    "topk_group": 1, "torch_dtype": "bfloat16", "use_cache": true, "use_qk_norm": false,
    "vocab_size": 151552})");
  const DecoderConfig config = read_and_written(json);
  EXPECT_FALSE(config.layer(0).experts);
  EXPECT_TRUE(config.layer(1).experts);
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_TRUE(config.experts.choice_bias);
  EXPECT_EQ(config.experts.shared_intermediate_size, 1408);
}

// As Qwen3-Next-80B-A3B's, with fewer layers.
TEST(PublishedKeys, OfQwen3NextHaveAttentionInEveryFourthLayer) {
  const nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
    "attention_dropout": 0.0, "bos_token_id": 151643, "decoder_sparse_step": 1,
    "eos_token_id": 151645, "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5120,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_value_head_dim": 128, "max_position_embeddings": 262144,
    "mlp_only_layers": [], "moe_intermediate_size": 512, "norm_topk_prob": true,
    "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
    "num_hidden_layers": 5, "num_key_value_heads": 2, "output_router_logits": false,
    "partial_rotary_factor": 0.25, "rms_norm_eps": 1e-06, "rope_scaling": null,
    "rope_theta": 10000000, "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 512,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
    "use_sliding_window": false, "vocab_size": 151936})");
  const DecoderConfig config = read_and_written(json);
  EXPECT_TRUE(config.layer(2).delta_net);
  EXPECT_FALSE(config.layer(3).delta_net);
  EXPECT_TRUE(config.layer(4).delta_net);
  EXPECT_EQ(config.rotary_dim, 64);
  EXPECT_EQ(config.delta_net.conv_channels(), 8192);
  EXPECT_TRUE(config.experts.shared_gate);
}

// As LFM2-1.2B's.
TEST(PublishedKeys, OfLfm2HaveTheWidthOfTheMlpBeforeItsAdjustment) {
  const nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "block_auto_adjust_ff_dim": true,
    "block_dim": 2048, "block_ff_dim": 12288, "block_ffn_dim_multiplier": 1.0,
    "block_mlp_init_scale": 1.0, "block_multiple_of": 256, "block_norm_eps": 1e-05,
    "block_out_init_scale": 1.0, "block_use_swiglu": true, "block_use_xavier_init": true,
    "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": false, "conv_dim": 2048,
    "conv_dim_out": 2048, "conv_use_xavier_init": true, "eos_token_id": 7,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14], "hidden_size": 2048, "initializer_range": 0.02,
    "max_position_embeddings": 128000, "norm_eps": 1e-05, "num_attention_heads": 32,
    "num_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pad_token_id": 0,
    "rope_theta": 1000000.0, "torch_dtype": "bfloat16", "use_cache": true, "use_pos_enc": true,
    "vocab_size": 65536})");
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.intermediate_size, 8192);
  EXPECT_TRUE(config.layer(1).short_conv);
  EXPECT_FALSE(config.layer(2).short_conv);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.short_conv.width, 3);
}

// As Granite-4.0-H-Micro's, with fewer layers.
TEST(PublishedKeys, OfGranite4MayHaveNoExperts) {
  const nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid",
    "attention_bias": false, "attention_dropout": 0.0, "attention_multiplier": 0.015625,
    "bos_token_id": 100257, "embedding_multiplier": 12, "eos_token_id": 100257,
    "hidden_act": "silu", "hidden_size": 2048, "init_method": "mup", "initializer_range": 0.1,
    "intermediate_size": 8192, "layer_types": ["mamba", "attention", "mamba"],
    "logits_scaling": 8, "mamba_chunk_size": 256, "mamba_conv_bias": true, "mamba_d_conv": 4,
    "mamba_d_head": 64, "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1,
    "mamba_n_heads": 64, "mamba_proj_bias": false, "max_position_embeddings": 131072,
    "normalization_function": "rmsnorm", "num_attention_heads": 32, "num_experts_per_tok": 0,
    "num_hidden_layers": 3, "num_key_value_heads": 8, "num_local_experts": 0,
    "output_router_logits": false, "pad_token_id": 100256, "position_embedding_type": "nope",
    "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": null,
    "rope_theta": 10000, "router_aux_loss_coef": 0.01, "shared_intermediate_size": 8192,
    "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
    "vocab_size": 100352, "time_step_limit": [0.0, {"__float__": "Infinity"}]})");
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.experts.num_experts, 0);
  EXPECT_TRUE(config.layer(0).mamba2);
  EXPECT_TRUE(config.layer(1).no_rotary);
  EXPECT_EQ(config.mamba2.conv_channels(), 4352);
  EXPECT_EQ(config.mamba2.projection_width(), 8512);
}

nlohmann::json phi35_moe() {
  nlohmann::json json = nlohmann::json::parse(R"({
    "architectures": ["PhiMoEForCausalLM"], "model_type": "phimoe", "attention_bias": true,
    "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 32000, "hidden_act": "silu",
    "hidden_dropout": 0.0, "hidden_size": 64, "initializer_range": 0.02, "input_jitter_noise": 0.01,
    "intermediate_size": 6400, "lm_head_bias": true, "max_position_embeddings": 131072,
    "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 2,
    "num_key_value_heads": 8, "num_local_experts": 16, "original_max_position_embeddings": 4096,
    "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "router_aux_loss_coef": 0.0, "router_jitter_noise": 0.01, "sliding_window": 131072,
    "tie_word_embeddings": false, "vocab_size": 32064})");
  json["rope_scaling"] = {{"type", "longrope"},
                          {"short_factor", {1.05}},
                          {"long_factor", {1.5}},
                          {"short_mscale", 1.243163121016122},
                          {"long_mscale", 1.243163121016122},
                          {"original_max_position_embeddings", 4096}};
  return json;
}

TEST(PublishedKeys, OfPhi35MoeScaleCosineAndSineByOneFactor) {
  nlohmann::json json = phi35_moe();
  EXPECT_NE(message_of(json).find("'input_jitter_noise'"), std::string::npos);
  json.erase("input_jitter_noise");
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.rotary.scaling.attention_factor, 1.243163121016122);
  EXPECT_EQ(config.experts.router, RouterKind::kSparseMixer);
  EXPECT_TRUE(config.head_bias);
  json["rope_scaling"]["short_mscale"] = 1.1;
  EXPECT_NE(message_of(json).find("'rope_scaling.long_mscale'"), std::string::npos);
  json["rope_scaling"].erase("short_mscale");
  EXPECT_NE(message_of(json).find("'rope_scaling.short_mscale'"), std::string::npos);
}

TEST(PublishedKeys, OfGpt2NameTheDropoutsThatAreNotComputed) {
  nlohmann::json json = nlohmann::json::parse(R"({
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
    "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
    "n_layer": 2, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
    "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
    "summary_use_proj": true, "vocab_size": 50257,
    "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}})");
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    EXPECT_NE(message_of(json).find(key), std::string::npos) << key;
  }
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) json[key] = 0;
  const DecoderConfig config = read_and_written(json);
  EXPECT_EQ(config.intermediate_size, 4 * 768);
  EXPECT_TRUE(config.learned_positions && config.tied_embeddings);
}

}  // namespace
}  // namespace packtrain
