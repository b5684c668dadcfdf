// The rows of parameters by tensor, against the weight maps of all families.
#include "models/families/parameter_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "models/decoder/decoder.h"
#include "models/families/family.h"
#include "models/families/weight_map.h"

namespace packtrain {
namespace {

using Parts = std::vector<ParameterPart>;
using TensorOfElement = std::map<std::string, std::vector<std::string>>;  // by parameter

// The tensor of every element, by the weight map.
TensorOfElement tensors_by_map(const DecoderConfig& config) {
  TensorOfElement tensors;
  for (const WeightPiece& piece : module_weights(config)) {
    std::vector<std::string>& of_parameter = tensors[piece.parameter];
    const auto end = static_cast<std::size_t>(piece.begin + piece.numel());
    of_parameter.resize(std::max(of_parameter.size(), end));
    std::fill(of_parameter.begin() + piece.begin,
              of_parameter.begin() + piece.begin + piece.numel(), piece.hf_name);
  }
  return tensors;
}

// The same by the parts of a model's parameters. A tensor is named twice where parts overlap.
TensorOfElement tensors_by_parts(const DecoderConfig& config) {
  DecoderOptions options;
  options.parts = parameter_parts(config);
  TensorOfElement tensors;
  for (const auto& block : make_decoder(config, options)) {
    for (const ParameterSpec& spec : block->parameters()) {
      std::vector<std::string> of_parameter(static_cast<std::size_t>(spec.numel()));
      for (const ParameterPart& part : spec.parts) {
        for (std::int64_t row = 0; row < part.num_runs * part.num_rows; ++row) {
          const std::int64_t at =
              part.begin + row / part.num_rows * part.stride + row % part.num_rows;
          for (std::int64_t i = 0; i < spec.row_numel(); ++i) {
            of_parameter.at(static_cast<std::size_t>(at * spec.row_numel() + i)) += part.tensor;
          }
        }
      }
      tensors[spec.name] = std::move(of_parameter);
    }
  }
  return tensors;
}

nlohmann::json samples_of(const std::string& model_type) {
  std::string path = FAMILY_SAMPLES "/";
  path += model_type;
  path += ".json";
  return nlohmann::json::parse(read_text(path, ErrorCategory::kInternal));
}

DecoderConfig first_sample_of(const std::string& model_type) {
  return parse_decoder_config(samples_of(model_type).front().dump());
}

TEST(ParameterParts, AreTheRowsThatTheWeightMapGivesToEachTensor) {
  for (const Family& family : families()) {
    for (const auto& sample : samples_of(family.model_type)) {
      const DecoderConfig config = parse_decoder_config(sample.dump());
      EXPECT_EQ(tensors_by_parts(config), tensors_by_map(config)) << sample;
    }
  }
}

TEST(ParameterParts, OfAFusedMatrixAreItsTensorsInOrder) {
  const DecoderConfig config = first_sample_of("llama");
  const auto parts = parameter_parts(config);
  const std::int64_t inner = config.intermediate_size;
  EXPECT_EQ(parts.at("layers.0.mlp.gate_up.weight"),
            (Parts{{"model.layers.0.mlp.gate_proj.weight", 0, inner},
                   {"model.layers.0.mlp.up_proj.weight", inner, inner}}));
  const std::int64_t q = config.num_heads * config.head_dim;
  const std::int64_t kv = config.num_kv_heads * config.head_dim;
  EXPECT_EQ(parts.at("layers.0.attention.qkv.weight"),
            (Parts{{"model.layers.0.self_attn.q_proj.weight", 0, q},
                   {"model.layers.0.self_attn.k_proj.weight", q, kv},
                   {"model.layers.0.self_attn.v_proj.weight", q + kv, kv}}));
}

TEST(ParameterParts, OfATensorOfAllExpertsAreRunsOneExpertApart) {
  const DecoderConfig config = first_sample_of("dbrx");
  const Parts parts = parameter_parts(config).at("layers.0.mlp.experts.gate_up.weight");
  ASSERT_EQ(parts.size(), 2U);
  const ParameterPart& gate = parts.front();
  const ParameterPart& up = parts.back();
  EXPECT_TRUE(gate.tensor.ends_with("experts.mlp.w1")) << gate.tensor;
  EXPECT_TRUE(up.tensor.ends_with("experts.mlp.v1")) << up.tensor;
  EXPECT_EQ(gate.num_runs, config.experts.num_experts);
  EXPECT_EQ(gate.stride, 2 * gate.num_rows);
  EXPECT_EQ(up.begin, gate.num_rows);
}

}  // namespace
}  // namespace packtrain
