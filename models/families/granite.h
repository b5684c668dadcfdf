// Granite (model_type "granite", from 3.0 on; IBM, "Granite 3.0 Language Models", 2024): Llama's
// layout with multipliers of embeddings, attention scores, outputs of branches, and logits. The
// Granite code models have model_type "llama".
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/llama_layout.h"

namespace packtrain {

Family granite_family();

// The multipliers of all Granite models.
void read_granite_multipliers(ConfigReader& reader, DecoderConfig& config);
void write_granite_multipliers(const DecoderConfig& config, nlohmann::json& json);

// All that a config of Granite without experts has.
void read_granite_layout(ConfigReader& reader, DecoderConfig& config, const LlamaLayout& layout);
nlohmann::json write_granite_layout(const DecoderConfig& config);

}  // namespace packtrain
