// Gemma (model_type "gemma"; Gemma Team, arXiv 2403.08295): Llama's layout with RMS norms that
// scale by 1 + w, a GELU gate, embeddings times sqrt(hidden_size), tied embeddings and its own
// head_dim.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/llama_layout.h"

namespace packtrain {

Family gemma_family();

// What all generations of Gemma have: Llama's layout with their defaults, biases, norms and
// multiplier, causal attention only.
void read_gemma_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout);
nlohmann::json write_gemma_layout(const DecoderConfig& config);

// What generations 2 and 3 have beside: norms behind each branch, too, a scale and soft-caps of
// attention and logits. `defaults` are of keys that are absent; null and 0 are none.
struct SoftCaps {
  double attention = 0;
  double logits = 0;
};
void read_gemma2_options(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config,
                         const SoftCaps& defaults);
void write_gemma2_options(const DecoderConfig& config, nlohmann::json& json);

}  // namespace packtrain
