// Granite with windows (model_type "granite_swa"; IBM, 2026): every fourth layer sees all tokens,
// and each head has a sink. Layers have bases of rotary positions of their own (layer_rope_theta),
// of which 0 is none. Two bases may differ.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/family.h"

namespace packtrain {

Family granite_swa_family();

// What models with and without experts have: sinks, layer_types and layer_rope_theta.
void read_granite_windows(const nlohmann::json& json, ConfigReader& reader, DecoderConfig& config);
void write_granite_windows(const DecoderConfig& config, nlohmann::json& json);

}  // namespace packtrain
