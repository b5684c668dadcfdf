// Gemma (model_type "gemma"; Gemma Team, arXiv 2403.08295): Llama's layout with these differences.
// RMS norms scale by 1 + w, the gate is GELU, embeddings are multiplied by sqrt(hidden_size) and
// tied, and head_dim is a key of its own.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/llama_layout.h"

namespace packtrain {

Family gemma_family();

// Shared by all generations of Gemma: Llama's layout with their defaults, biases, norms and
// multiplier, and causal attention only.
void read_gemma_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout);
nlohmann::json write_gemma_layout(const DecoderConfig& config);

// Shared by generations 2 and 3: norms also after each branch, an attention scale, and soft caps of
// attention and logits. `defaults` are for absent keys; null and 0 mean no cap.
struct SoftCaps {
  double attention = 0;
  double logits = 0;
};
void read_gemma2_options(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config,
                         const SoftCaps& defaults);
void write_gemma2_options(const DecoderConfig& config, nlohmann::json& json);

}  // namespace packtrain
