// Hugging Face configs in and out.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/support/error.h"
#include "models/families/config_changes.h"
#include "models/families/family.h"

namespace packtrain {
namespace {

nlohmann::json old_llama() {
  return nlohmann::json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "hidden_act": "silu",
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
    "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                     "original_max_position_embeddings": 8192, "rope_type": "llama3"},
    "tie_word_embeddings": true, "attention_bias": false, "attention_dropout": 0.0,
    "pretraining_tp": 1, "use_cache": true, "bos_token_id": 128000, "eos_token_id": [1, 2],
    "initializer_range": 0.02, "mlp_bias": false, "transformers_version": "4.45.0",
    "_name_or_path": "somewhere"})");
}

// As transformers 5 writes it.
nlohmann::json new_llama() {
  nlohmann::json config = old_llama();
  config["rope_parameters"] = config["rope_scaling"];
  config["rope_parameters"]["rope_theta"] = config["rope_theta"];
  config.erase("rope_scaling");
  config.erase("rope_theta");
  return config;
}

std::string message_of(const nlohmann::json& config) {
  try {
    parse_decoder_config(config.dump());
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    return error.message();
  }
  return "no error";
}

void expect_refused(const std::string& key, const nlohmann::json& value) {
  nlohmann::json config = old_llama();
  config[key] = value;
  const std::string message = message_of(config);
  EXPECT_NE(message.find("'" + key), std::string::npos) << key << ": " << message;
}

TEST(LlamaConfig, ReadsEveryValue) {
  const DecoderConfig config = parse_decoder_config(old_llama().dump());
  EXPECT_EQ(config.vocab_size, 128256);
  EXPECT_EQ(config.num_kv_heads, 8);
  EXPECT_EQ(config.head_dim, 64);
  EXPECT_EQ(config.norm.epsilon, 1e-5);
  EXPECT_EQ(config.rotary.base, 500000.0);
  EXPECT_EQ(config.rotary.scaling.kind, RotaryScaling::Kind::kLlama3);
  EXPECT_EQ(config.rotary.scaling.factor, 32.0);
  EXPECT_EQ(config.rotary.scaling.original_max_positions, 8192);
  EXPECT_TRUE(config.tied_embeddings);
}

TEST(LlamaConfig, OldAndNewLayoutMeanTheSame) {
  EXPECT_EQ(parse_decoder_config(old_llama().dump()), parse_decoder_config(new_llama().dump()));
}

TEST(LlamaConfig, HasTheFamilysDefaults) {
  const DecoderConfig config = parse_decoder_config(
      R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 64, "intermediate_size": 96,
          "num_hidden_layers": 2, "num_attention_heads": 4})");
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.max_positions, 2048);
  EXPECT_EQ(config.norm.epsilon, 1e-6);
  EXPECT_EQ(config.rotary.base, 10000.0);
  EXPECT_FALSE(config.tied_embeddings);
}

TEST(LlamaConfig, WhatIsWrittenReadsBackEqual) {
  for (const char* kind : {"none", "linear", "llama3"}) {
    nlohmann::json json = old_llama();
    json["rope_scaling"]["rope_type"] = kind;
    if (std::string(kind) == "none") {
      json["rope_scaling"] = nullptr;
    } else if (std::string(kind) == "linear") {
      json["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
    }
    const DecoderConfig config = parse_decoder_config(json.dump());
    EXPECT_EQ(parse_decoder_config(find_family("llama").write(config).dump()), config) << kind;
  }
}

TEST(LlamaConfig, RefusesWhatTheDecoderDoesNotCompute) {
  expect_refused("hidden_act", "relu2");
  expect_refused("pretraining_tp", 2);
  expect_refused("attention_dropout", 0.1);
  expect_refused("sliding_window", 4096);
  expect_refused("rope_scaling", {{"rope_type", "mrope"}, {"factor", 4.0}});
  expect_refused("rope_scaling", {{"rope_type", "linear"}, {"factor", 4.0}, {"mystery", 1}});
}

// What to_dict() of transformers 4 and 5 wrote into real files, and what training tools add.
TEST(ConfigKeys, BookkeepingOfEveryConfigIsAccepted) {
  const auto bookkeeping = nlohmann::json::parse(R"({
    "torchscript": false, "use_bfloat16": false, "tf_legacy_loss": false, "pruned_heads": {},
    "add_cross_attention": false, "tie_encoder_decoder": false, "min_length": 0, "num_beams": 1,
    "num_beam_groups": 1, "diversity_penalty": 0.0, "typical_p": 1.0, "length_penalty": 1.0,
    "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "num_return_sequences": 1,
    "output_scores": false, "return_dict_in_generate": false, "remove_invalid_values": false,
    "finetuning_task": null, "prefix": null, "early_stopping": false, "sep_token_id": 3,
    "unk_token_id": 0, "mask_token_id": 4, "decoder_start_token_id": 5, "suppress_tokens": [1],
    "cross_attention_hidden_size": null, "task_specific_params": {"text": {"num_beams": 4}},
    "exponential_decay_length_penalty": null, "max_length": 20, "num_labels": 2,
    "gradient_checkpointing": true, "internal_version": "a-1", "trained_by": {"name": "me"}})");
  nlohmann::json config = old_llama();
  config.update(bookkeeping);
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
}

TEST(ConfigKeys, AKeyThatSaysWhatIsComputedAnywayIsAccepted) {
  nlohmann::json config = old_llama();
  config.update({{"qkv_bias", false},
                 {"use_qk_norm", false},
                 {"logit_scale", nullptr},
                 {"clip_qkv", 0},
                 {"n_embd", 2048},
                 {"rotary_pct", 1.0},
                 {"use_rms_norm", true},
                 {"head_size", 64},
                 {"is_causal", true},
                 {"num_local_experts", 0},
                 {"mlp_only_layers", {}},
                 {"layer_norm_eps", 1e-5}});
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
}

TEST(ConfigKeys, EveryKeyThatChangesTheComputationIsNamedAtOnce) {
  nlohmann::json config = old_llama();
  config.update({{"pretraining_tp", 2},
                 {"logit_scale", 0.5},
                 {"use_qk_norm", true},
                 {"is_causal", false},
                 {"attention_dropout", 0.1}});
  const std::string message = message_of(config);
  for (const char* part : {"'pretraining_tp' is 2, but only 1", "'logit_scale'", "0.5",
                           "'use_qk_norm' is true, but only false", "'is_causal' is false",
                           "'attention_dropout' is 0.1"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  }
}

TEST(ConfigKeys, TheAdviceLeavesOutWhatWasRefused) {
  nlohmann::json config = old_llama();
  config.update({{"logit_scale", 0.5}, {"mup_width", 256}});
  try {
    parse_decoder_config(config.dump());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.advice().find("model.ignore_keys: [logit_scale, mup_width]"), std::string::npos)
        << error.advice();
  }
  EXPECT_EQ(parse_decoder_config(without_keys(config.dump(), {"logit_scale", "mup_width"})),
            parse_decoder_config(old_llama().dump()));
}

TEST(ConfigKeys, AKeyToIgnoreThatTheConfigLacksIsRefusedWithTheNearestOne) {
  nlohmann::json config = old_llama();
  config["logit_scale"] = 0.5;
  try {
    without_keys(config.dump(), {"logits_scale"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("'logits_scale'"), std::string::npos);
    EXPECT_NE(error.advice().find("'logit_scale'"), std::string::npos) << error.advice();
  }
}

TEST(ConfigKeys, AKeyToIgnoreThatIsGoneAlreadyIsNoError) {
  const std::string config = old_llama().dump();
  EXPECT_EQ(without_keys(config, {"logit_scale", "rope_scaling.mystery"}), config);
}

TEST(ConfigKeys, WhatIsNotComputedIsNamedBesideUnknownKeys) {
  nlohmann::json config = old_llama();
  config.update({{"hidden_act", "relu2"},
                 {"rope_scaling", {{"rope_type", "mrope"}, {"mrope_section", {1, 2}}}},
                 {"layer_types", nlohmann::json::array({"other"})},
                 {"num_hidden_layers", 1},
                 {"model_type", "qwen2"},
                 {"logit_scale", 0.5}});
  const std::string message = message_of(config);
  for (const char* part : {"'hidden_act' is \"relu2\"", "'rope_scaling.rope_type' is \"mrope\"",
                           "'layer_types' has \"other\"", "'logit_scale'"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
  }
  EXPECT_EQ(message.find("mrope_section"), std::string::npos) << message;
}

TEST(ConfigKeys, AMisspelledKeyIsRefusedWithTheOneThatItSeemsToMean) {
  nlohmann::json config = old_llama();
  config.erase("initializer_range");
  config["initialiser_range"] = 0.01;
  EXPECT_NE(message_of(config).find("is it meant to be 'initializer_range'?"), std::string::npos);
  config["initializer_range"] = 0.01;
  EXPECT_EQ(message_of(config), "no error");
}

TEST(ConfigKeys, QwenCodersKeysThatChangeNothingAreAccepted) {
  nlohmann::json config = old_llama();
  config.update({{"model_type", "qwen3_moe"},
                 {"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 32}});
  const DecoderConfig plain = parse_decoder_config(config.dump());
  config.update(
      {{"qkv_bias", false}, {"use_qk_norm", true}, {"shared_expert_intermediate_size", 0}});
  EXPECT_EQ(parse_decoder_config(config.dump()), plain);
  config["shared_expert_intermediate_size"] = 64;
  EXPECT_NE(message_of(config).find("'shared_expert_intermediate_size'"), std::string::npos);
}

TEST(LlamaConfig, RefusesWrongAndMissingValues) {
  expect_refused("vocab_size", "many");
  expect_refused("vocab_size", 0);
  expect_refused("hidden_size", 2048.5);
  expect_refused("num_hidden_layers", nullptr);
  expect_refused("num_key_value_heads", 5);
  expect_refused("head_dim", 63);
  expect_refused("rms_norm_eps", -1.0);
  expect_refused("tie_word_embeddings", 1);
  expect_refused("rope_scaling", {{"rope_type", "linear"}});
  expect_refused("rope_theta", 0);
}

TEST(Families, AnUnknownModelTypeListsTheKnownOnes) {
  nlohmann::json config = old_llama();
  config["model_type"] = "mamba";
  EXPECT_NE(message_of(config).find("llama"), std::string::npos);
  EXPECT_NE(message_of({{"vocab_size", 3}}).find("model_type"), std::string::npos);
  EXPECT_THROW(parse_decoder_config("{not json"), Error);
}

TEST(Families, OfAModelOfMoreThanTextTheTextModelIsRead) {
  const nlohmann::json config = {{"model_type", "llava"}, {"text_config", old_llama()}};
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
}

TEST(Families, TheOuterConfigDecidesWhetherEmbeddingsAreTied) {
  nlohmann::json config = {{"model_type", "llava"}, {"text_config", old_llama()}};
  for (const bool tied : {false, true}) {
    config["tie_word_embeddings"] = tied;
    EXPECT_EQ(parse_decoder_config(config.dump()).tied_embeddings, tied);
  }
}

TEST(Families, OfAModelOfMoreThanTextTheTypeOfTextIsNamedWhereItIsNotTrained) {
  nlohmann::json config = {{"model_type", "gemma4"}, {"text_config", old_llama()}};
  config["text_config"]["model_type"] = "gemma4_text";
  EXPECT_NE(message_of(config).find("\"gemma4_text\", which is not one that"), std::string::npos);
}

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
    windows.push_back(config.layer(layer).window);
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

TEST(DbrxConfig, NormalizesWeightsOfExpertsUnlessToldNotTo) {
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

// Keys of published folders that change nothing in training.
TEST(Families, KeysOfToolsAndOfGenerationAreHarmless) {
  nlohmann::json config = old_llama();
  config.update({{"unsloth_fixed", true},
                 {"unsloth_version", "2024.9"},
                 {"is_llama_config", true},  // SmolLM2
                 {"rope_interleaved", false},
                 {"transformers.js_config", {{"dtype", "q4"}}},
                 {"max_length", 4096},
                 {"temperature", 0.6},
                 {"top_p", 0.9}});
  EXPECT_EQ(parse_decoder_config(config.dump()), parse_decoder_config(old_llama().dump()));
  expect_refused("rope_interleaved", true);
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
