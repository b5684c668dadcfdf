// The places of an adapter's parameters in PEFT's tensors.
#include "models/adapters/adapter_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "framework/core/file.h"
#include "models/adapters/lora_targets.h"
#include "models/families/family.h"
#include "models/families/stacked_experts.h"

namespace packtrain {
namespace {

nlohmann::json family_samples(const std::string& model_type) {
  std::string path = FAMILY_SAMPLES "/";
  path += model_type;
  path += ".json";
  return nlohmann::json::parse(read_text(path, ErrorCategory::kInternal));
}

DecoderConfig with_targets(DecoderConfig config, const LoraOptions& options) {
  config.adapter = std::make_shared<const AdapterTargets>(find_lora_targets(config, options));
  return config;
}

std::vector<WeightPiece> of_tensor(const std::vector<WeightPiece>& pieces,
                                   const std::string& name) {
  std::vector<WeightPiece> found;
  std::ranges::copy_if(pieces, std::back_inserter(found),
                       [&](const WeightPiece& piece) { return piece.hf_name == name; });
  return found;
}

// The row of the tensor that has each row of the parameter.
std::vector<std::int64_t> tensor_rows(const std::vector<WeightPiece>& pieces) {
  std::vector<std::int64_t> rows;
  for (const WeightPiece& piece : pieces) {
    const std::int64_t width = piece.hf_shape.size() == 1 ? 1 : piece.hf_shape.back();
    for (std::int64_t element = 0; element < piece.numel(); element += width) {
      const std::int64_t run = element / piece.columns;
      rows.push_back((piece.hf_begin + run * piece.hf_row_stride + element % piece.columns) /
                     width);
    }
  }
  return rows;
}

std::int64_t elements_of(const std::vector<WeightPiece>& pieces) {
  std::int64_t sum = 0;
  for (const WeightPiece& piece : pieces) sum += piece.numel();
  return sum;
}

TEST(AdapterWeights, HaveEachElementOfEachTensorOnceInAllFamilies) {
  LoraOptions options;
  options.rank = 2;
  for (const Family& family : families()) {
    for (const auto& sample : family_samples(family.model_type)) {
      const DecoderConfig config = with_targets(parse_decoder_config(sample.dump()), options);
      const auto pieces = adapter_weights(config);
      for (const WeightPiece& piece : pieces) {
        EXPECT_EQ(elements_of(of_tensor(pieces, piece.hf_name)), piece.hf_numel())
            << family.model_type << ": " << piece.hf_name;
      }
    }
  }
}

// Families without the parameters that PEFT adapts are left out.
TEST(AdapterWeights, OfExpertsHaveEachElementOnceInAllFamilies) {
  LoraOptions options;
  options.rank = 2;
  std::set<std::string> tested;
  for (const Family& family : families()) {
    for (const auto& sample : family_samples(family.model_type)) {
      const DecoderConfig base = parse_decoder_config(sample.dump());
      if (stacked_experts(base).empty()) continue;
      tested.insert(family.model_type);
      options.targets = {base.activation.gated ? "experts.gate_up_proj" : "experts.up_proj",
                         "experts.down_proj"};
      const auto pieces = adapter_weights(with_targets(base, options));
      for (const WeightPiece& piece : pieces) {
        std::set<std::int64_t> elements;
        for (const WeightPiece& of_name : of_tensor(pieces, piece.hf_name)) {
          for (std::int64_t i = 0; i < of_name.numel(); ++i) {
            elements.insert(of_name.hf_begin + i / of_name.columns * of_name.hf_row_stride +
                            i % of_name.columns * of_name.hf_column_stride);
          }
        }
        EXPECT_EQ(static_cast<std::int64_t>(elements.size()), piece.hf_numel()) << piece.hf_name;
        EXPECT_EQ(*elements.rbegin(), piece.hf_numel() - 1) << piece.hf_name;
      }
    }
  }
  EXPECT_EQ(tested, (std::set<std::string>{"afmoe",
                                           "deepseek_v2",
                                           "deepseek_v3",
                                           "dots1",
                                           "ernie4_5_moe",
                                           "exaone_moe",
                                           "flex_olmo",
                                           "gemma4_text",
                                           "glm4_moe",
                                           "glm4_moe_lite",
                                           "gpt_oss",
                                           "granitemoe",
                                           "granitemoe_swa",
                                           "granitemoehybrid",
                                           "granitemoeshared",
                                           "hunyuan_v1_moe",
                                           "hy_v3",
                                           "lfm2_moe",
                                           "minimax_m2",
                                           "mixtral",
                                           "nemotron_h",
                                           "olmoe",
                                           "phimoe",
                                           "qwen2_moe",
                                           "qwen3_5_moe_text",
                                           "qwen3_moe",
                                           "qwen3_next",
                                           "solar_open"}));
}

TEST(AdapterWeights, OfExpertsAreNestedAsInPeft) {
  LoraOptions options;
  options.rank = 2;
  const DecoderConfig base = parse_decoder_config(family_samples("mixtral").front().dump());
  const std::string module = "base_model.model.model.layers.0.mlp.experts.";
  const auto of_gate_up = [&](std::vector<std::string> targets, const std::string& tensor) {
    options.targets = std::move(targets);
    const auto pieces = of_tensor(adapter_weights(with_targets(base, options)), tensor);
    return !pieces.empty() && pieces.front().parameter == "layers.0.mlp.experts.gate_up.lora_A";
  };
  EXPECT_TRUE(of_gate_up({"experts.gate_up_proj"}, module + "lora_A.weight"));
  EXPECT_TRUE(of_gate_up({"*.experts.*_proj"}, module + "base_layer.lora_A.weight"));
}

TEST(AdapterWeights, HaveParametersOfOneNameOnlyForOneModuleInAllFamilies) {
  LoraOptions options;
  options.rank = 2;
  for (const Family& family : families()) {
    const auto sample = family_samples(family.model_type).front();
    const DecoderConfig config = with_targets(parse_decoder_config(sample.dump()), options);
    std::map<std::string, std::string> tensor_of;
    for (const WeightPiece& piece : adapter_weights(config)) {
      if (!piece.parameter.ends_with(".lora_B")) continue;
      const auto [found, is_new] = tensor_of.try_emplace(piece.parameter, piece.hf_name);
      EXPECT_EQ(found->second, piece.hf_name) << family.model_type;
    }
  }
}

TEST(AdapterWeights, StackTheAsOfAFusedWeightInTheOrderOfItsRows) {
  LoraOptions options;
  options.targets = {"v_proj", "q_proj"};
  options.rank = 4;
  options.rank_pattern = {{"v_proj", 3}};
  const auto config =
      with_targets(parse_decoder_config(family_samples("llama").front().dump()), options);
  const auto pieces = adapter_weights(config);
  const std::string module = "base_model.model.model.layers.0.self_attn.";
  const WeightPiece q = of_tensor(pieces, module + "q_proj.lora_A.weight").front();
  const WeightPiece v = of_tensor(pieces, module + "v_proj.lora_A.weight").front();
  EXPECT_EQ(q.parameter, "layers.0.attention.qkv.lora_A");
  EXPECT_EQ(v.parameter, q.parameter);
  EXPECT_EQ(q.begin, 0);
  EXPECT_EQ(v.begin, 4 * config.hidden_size);
  EXPECT_EQ(v.hf_shape, (std::vector<std::int64_t>{3, config.hidden_size}));
  const WeightPiece b = of_tensor(pieces, module + "v_proj.lora_B.weight").front();
  EXPECT_EQ(b.parameter, "layers.0.attention.qkv.v_proj.lora_B");
  EXPECT_EQ(b.hf_shape, (std::vector<std::int64_t>{config.num_kv_heads * config.head_dim, 3}));
}

TEST(AdapterWeights, PermuteTheRowsOfBAndMagnitudesAsThoseOfTheWeight) {
  LoraOptions options;
  options.rank = 3;
  options.use_dora = true;
  const DecoderConfig base = parse_decoder_config(family_samples("falcon").at(1).dump());
  const auto pieces = adapter_weights(with_targets(base, options));
  const std::string module = "transformer.h.1.self_attention.query_key_value";
  const auto of_base = of_tensor(find_family("falcon").weights(base), module + ".weight");
  const auto of_b = of_tensor(pieces, kPeftPrefix + module + ".lora_B.weight");
  EXPECT_EQ(tensor_rows(of_b), tensor_rows(of_base));
  const auto of_rows = of_tensor(pieces, kPeftPrefix + module + ".lora_magnitude_vector");
  EXPECT_EQ(tensor_rows(of_rows), tensor_rows(of_base));
  EXPECT_FALSE(std::ranges::is_sorted(tensor_rows(of_b)));
}

TEST(AdapterWeights, NameModulesThatAreTrainedWholeAsTheirPathIs) {
  LoraOptions options;
  options.targets = {"q_proj"};
  options.rank = 2;
  options.save = {"embed_tokens", "layers.1.input_layernorm"};
  const auto pieces = adapter_weights(
      with_targets(parse_decoder_config(family_samples("llama").front().dump()), options));
  const std::string prefix = "base_model.model.model.";
  EXPECT_EQ(of_tensor(pieces, prefix + "embed_tokens.weight").front().parameter, "embed.weight");
  EXPECT_EQ(of_tensor(pieces, prefix + "layers.1.input_layernorm.weight").size(), 1U);
}

}  // namespace
}  // namespace packtrain
