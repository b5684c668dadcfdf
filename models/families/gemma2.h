// Gemma 2 (model_type "gemma2"; Gemma Team, arXiv 2408.00118). It is Gemma with norms before and
// after each branch, soft caps of attention scores and logits, and windows in every second layer.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family gemma2_family();

// Shared with VaultGemma.
void read_gemma2_layout(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config);
nlohmann::json write_gemma2_layout(const DecoderConfig& config);

}  // namespace packtrain
