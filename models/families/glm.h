// GLM-4 of 2024 (model_type "glm"; arXiv 2406.12793): Llama's layout with biases of queries, keys
// and values. Half of a head rotates, in pairs of neighbours. Gate and up are one tensor. Heads
// have 128 elements when head_dim is not set. num_key_value_heads must be set, because
// transformers' fallback is 2 for any number of heads.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

// GLM and GLM-4-0414 share these.
void read_glm_layout(ConfigReader& reader, DecoderConfig& config);
nlohmann::json write_glm_layout(const DecoderConfig& config);

// Names of a layer's norms, without "model.layers.N.". The last two are of a model with norms after
// its branches.
struct GlmNorms {
  const char* before_attention = "input_layernorm";
  const char* before_mlp = "post_attention_layernorm";
  const char* after_attention = "";
  const char* after_mlp = "";
};
std::vector<WeightPiece> glm_weights(const DecoderConfig& config, const GlmNorms& norms);

Family glm_family();

}  // namespace packtrain
