// Which modules the options of an adapter name, in families of all layouts.
#include "models/adapters/lora_targets.h"

#include <gtest/gtest.h>

#include <set>

#include "framework/core/error.h"
#include "models/families/family.h"

namespace packtrain {
namespace {

// Two layers, fused qkv of 4 and 2 heads.
DecoderConfig small_llama() {
  return parse_decoder_config(
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 160,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "vocab_size": 512, "hidden_act": "silu", "max_position_embeddings": 512,
      "rms_norm_eps": 1e-6, "tie_word_embeddings": true})");
}

// Two layers, the first with experts.
DecoderConfig small_qwen_moe() {
  return parse_decoder_config(
      R"({"model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 160,
      "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2,
      "mlp_only_layers": [1], "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "hidden_act": "silu",
      "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "tie_word_embeddings": true})");
}

// Two layers with inputs of their own and three copies of the hidden state.
DecoderConfig small_gemma3n() {
  return parse_decoder_config(
      R"({"model_type": "gemma3n_text", "hidden_size": 64, "intermediate_size": 160,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "vocab_size": 512, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 16,
      "altup_num_inputs": 3, "laurel_rank": 8})");
}

AdapterTargets targets_of(const LoraOptions& options) {
  return find_lora_targets(small_llama(), options);
}

LoraOptions with_targets(std::vector<std::string> targets) {
  LoraOptions options;
  options.rank = 2;
  options.alpha = 8;
  options.targets = std::move(targets);
  return options;
}

std::set<std::string> module_names(const AdapterTargets& targets) {
  std::set<std::string> names;
  for (const auto& [weight, modules] : targets.weights) {
    for (const LoraModule& module : modules) names.insert(module.name);
  }
  return names;
}

std::string error_of(const LoraOptions& options, const DecoderConfig& config = small_llama()) {
  try {
    find_lora_targets(config, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
    return error.message();
  }
  return {};
}

TEST(LoraTargets, AllLinearIsEveryProjectionOfEveryLayer) {
  const AdapterTargets targets = targets_of(with_targets({"all-linear"}));
  const auto num_layers = static_cast<std::size_t>(small_llama().num_layers);
  EXPECT_EQ(module_names(targets).size(), 7 * num_layers);
  EXPECT_EQ(targets.weights.size(), 4 * num_layers);
}

TEST(LoraTargets, AllLinearHasNoProductsOfCopiesOrRouters) {
  const AdapterTargets targets = find_lora_targets(small_gemma3n(), with_targets({"all-linear"}));
  // Attention and MLP have 7, the branch next to attention 2, that of a layer's inputs 2.
  EXPECT_EQ(module_names(targets).size(), 2U * (7 + 2 + 2));
  for (const std::string& name : module_names(targets)) {
    EXPECT_EQ(name.find("altup"), std::string::npos) << name;
  }
}

TEST(LoraTargets, ANameOfModulesOfLayersChoosesNoOtherThatWeCallSo) {
  const AdapterTargets targets =
      find_lora_targets(small_gemma3n(), with_targets({"per_layer_projection"}));
  EXPECT_EQ(module_names(targets), (std::set<std::string>{"model.layers.0.per_layer_projection",
                                                          "model.layers.1.per_layer_projection"}));
}

TEST(LoraTargets, ModulesOfAFusedWeightCoverItsRowsInOrder) {
  const DecoderConfig config = small_llama();
  const LoraModules modules =
      targets_of(with_targets({"all-linear"})).weights.at("layers.1.attention.qkv.weight");
  ASSERT_EQ(modules.size(), 3U);
  const std::int64_t q = config.num_heads * config.head_dim;
  const std::int64_t kv = config.num_kv_heads * config.head_dim;
  EXPECT_EQ(modules[0].name, "model.layers.1.self_attn.q_proj");
  EXPECT_EQ(modules[0], (LoraModule{"model.layers.1.self_attn.q_proj", 0, q, 2, 4.0}));
  EXPECT_EQ(modules[1], (LoraModule{"model.layers.1.self_attn.k_proj", q, kv, 2, 4.0}));
  EXPECT_EQ(modules[2], (LoraModule{"model.layers.1.self_attn.v_proj", q + kv, kv, 2, 4.0}));
}

TEST(LoraTargets, ANameMatchesTheEndOfAPathAndAStarTheWholePath) {
  const auto same = [](const std::string& first, const std::string& second) {
    EXPECT_EQ(module_names(targets_of(with_targets({first}))),
              module_names(targets_of(with_targets({second}))));
  };
  same("q_proj", "model.layers.*.self_attn.q_proj");
  same("attention.qkv", "*.attention.qkv");
  same("mlp.gate_proj", "gate_proj");
}

TEST(LoraTargets, ExclusionsAndLayersNarrowTheTargets) {
  LoraOptions options = with_targets({"all-linear"});
  options.exclude = {"down_proj", "*.k_proj"};
  options.layers_to_transform = {1};
  const AdapterTargets targets = targets_of(options);
  EXPECT_EQ(
      module_names(targets),
      (std::set<std::string>{"model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj",
                             "model.layers.1.self_attn.o_proj", "model.layers.1.mlp.gate_proj",
                             "model.layers.1.mlp.up_proj"}));
}

TEST(LoraTargets, TheFirstMatchingPatternSetsRankAndAlpha) {
  LoraOptions options = with_targets({"q_proj", "o_proj"});
  options.rank_pattern = {{"layers.0.self_attn.q_proj", 8}, {"q_proj", 4}};
  options.alpha_pattern = {{"o_proj", 1.0}};
  const AdapterTargets targets = targets_of(options);
  EXPECT_EQ(targets.weights.at("layers.0.attention.qkv.weight").front().rank, 8);
  EXPECT_EQ(targets.weights.at("layers.1.attention.qkv.weight").front().rank, 4);
  EXPECT_DOUBLE_EQ(targets.weights.at("layers.1.attention.output.weight").front().scale, 0.5);
}

TEST(LoraTargets, RankStabilizedAdaptersScaleByTheRoot) {
  LoraOptions options = with_targets({"q_proj"});
  options.rank = 4;
  options.use_rslora = true;
  const AdapterTargets targets = targets_of(options);
  EXPECT_DOUBLE_EQ(targets.weights.at("layers.0.attention.qkv.weight").front().scale, 4.0);
}

TEST(LoraTargets, SavedModulesAreTrainedWholeWithTheirBiases) {
  LoraOptions options = with_targets({"q_proj"});
  options.save = {"embed_tokens", "o_proj"};
  EXPECT_EQ(targets_of(options).trained.count("embed.weight"), 1U);
  EXPECT_EQ(targets_of(options).trained.count("layers.0.attention.output.weight"), 1U);
}

TEST(LoraTargets, ExpertsOfALayerAreTwoModulesOfAllExperts) {
  const AdapterTargets targets =
      find_lora_targets(small_qwen_moe(), with_targets({"experts.gate_up_proj", "*.experts.down"}));
  ASSERT_EQ(targets.weights.size(), 2U);
  EXPECT_EQ(targets.weights.at("layers.0.mlp.experts.gate_up.weight"),
            (LoraModules{{"model.layers.0.mlp.experts.gate_up_proj", 0, 48, 2, 4.0}}));
  EXPECT_EQ(targets.weights.at("layers.0.mlp.experts.down.weight"),
            (LoraModules{{"model.layers.0.mlp.experts.down_proj", 0, 64, 2, 4.0}}));
}

TEST(LoraTargets, OnlyANameOfExpertsChoosesThem) {
  const DecoderConfig config = small_qwen_moe();
  for (const char* name : {"all-linear", "down_proj", "mlp.down_proj"}) {
    for (const std::string& module :
         module_names(find_lora_targets(config, with_targets({name})))) {
      EXPECT_EQ(module.find("experts"), std::string::npos) << module;
    }
  }
  LoraOptions options = with_targets({"all-linear", "experts.down_proj"});
  options.exclude = {"down_proj"};
  EXPECT_EQ(find_lora_targets(config, options).weights.count("layers.0.mlp.experts.down.weight"),
            1U);
  options.exclude = {"*layers.0.mlp.*"};
  EXPECT_EQ(find_lora_targets(config, options).weights.count("layers.0.mlp.experts.down.weight"),
            0U);
}

TEST(LoraTargets, ExpertsAreRefusedWithDropoutWholeAndAsOneMatrix) {
  LoraOptions options = with_targets({"experts.down_proj"});
  options.dropout = 0.1;
  EXPECT_NE(error_of(options, small_qwen_moe()).find("adapter.dropout is 0.1"), std::string::npos);
  options = with_targets({"all-linear"});
  options.save = {"experts.down_proj"};
  EXPECT_NE(error_of(options, small_qwen_moe()).find("adapter.save"), std::string::npos);
  EXPECT_NE(error_of(with_targets({"router"}), small_qwen_moe()).find("no linear layer"),
            std::string::npos);
}

TEST(LoraTargets, WhatMatchesNothingOrIsNoLinearLayerIsNamed) {
  EXPECT_NE(error_of(with_targets({"q_prj"})).find("'q_prj' matches no module"), std::string::npos);
  EXPECT_NE(error_of(with_targets({"input_layernorm"})).find("no linear layer"), std::string::npos);
  LoraOptions options = with_targets({"all-linear"});
  options.exclude = {"nothing"};
  EXPECT_NE(error_of(options).find("adapter.exclude: 'nothing'"), std::string::npos);
  options = with_targets({"all-linear"});
  options.rank = 100000;
  EXPECT_NE(error_of(options).find("is a matrix"), std::string::npos);
  options = with_targets({"all-linear"});
  options.save = {"k_proj"};
  EXPECT_NE(error_of(options).find("stored together"), std::string::npos);
  options = with_targets({"all-linear"});
  options.layers_to_transform = {99};
  EXPECT_NE(error_of(options).find("layers_to_transform: 99"), std::string::npos);
}

TEST(LoraTargets, InitialValuesOfAMatrixAreNotThoseOfExpertsOrAnEmbedding) {
  LoraOptions options = with_targets({"q_proj", "experts.down_proj"});
  options.initialization = LoraInitialization::kPissa;
  const std::string error = error_of(options, small_qwen_moe());
  EXPECT_NE(error.find("adapter.init: pissa"), std::string::npos) << error;
  EXPECT_NE(error.find("model.layers.0.mlp.experts.down_proj is none"), std::string::npos) << error;
  options = with_targets({"embed_tokens"});
  options.initialization = LoraInitialization::kLoftq;
  EXPECT_NE(error_of(options).find("adapter.init: loftq"), std::string::npos);
}

TEST(LoraTargets, MagnitudesAreOfLinearLayersAlone) {
  LoraOptions options = with_targets({"q_proj", "experts.down_proj"});
  options.use_dora = true;
  const std::string error = error_of(options, small_qwen_moe());
  EXPECT_NE(error.find("adapter.use_dora"), std::string::npos) << error;
  EXPECT_NE(error.find("model.layers.0.mlp.experts.down_proj is none"), std::string::npos) << error;
  DecoderConfig untied = small_llama();
  untied.tied_embeddings = false;
  for (const char* name : {"embed_tokens", "lm_head"}) {
    options.targets = {name};
    EXPECT_NE(error_of(options, untied).find("adapter.use_dora"), std::string::npos) << name;
  }
  options.targets = {"all-linear"};
  EXPECT_TRUE(targets_of(options).use_dora);
}

}  // namespace
}  // namespace packtrain
