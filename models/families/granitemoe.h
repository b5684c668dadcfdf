// GraniteMoE (Granite 3.0 1B-A400M and 3B-A800M): Granite with experts in every layer, and a
// softmax over the chosen experts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family granitemoe_family();

// All Granite models with experts share these.
void read_granitemoe_layout(ConfigReader& reader, DecoderConfig& config);
nlohmann::json write_granitemoe_layout(const DecoderConfig& config);
void add_granite_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);
// The parameters of transformers' modules, which some folders have.
void add_granite_expert_modules(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

}  // namespace packtrain
