// EXAONE 4 (model_type "exaone4"; LG AI Research, arXiv 2507.11407): norms after each branch, as
// OLMo 2, and norms of each query and key head. Where a window is set, layers that see all tokens
// have no rotary positions. The fallback of num_key_value_heads in transformers is 32 for any
// number of heads, so that the key must be set.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family exaone4_family();

// Reads which layers have windows, and takes the rotary positions from the others.
void read_exaone_windows(ConfigReader& reader, DecoderConfig& config);
// Inverse of read_exaone_windows.
void write_exaone_windows(const DecoderConfig& config, nlohmann::json& json);

}  // namespace packtrain
