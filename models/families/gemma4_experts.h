// Experts next to the MLPs of Gemma 4's layers (26B-A4B). The router and the experts read the rows
// that the MLP reads, each under a norm of its own. The sum of the MLP's normed output and that of
// the experts is the branch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/families/weight_map.h"

namespace packtrain {

// Reads `enable_moe_block` and, where it is true, the sizes of experts. Other layers' settings must
// be read before.
void read_gemma4_experts(ConfigReader& reader, DecoderConfig& config);
void write_gemma4_experts(const DecoderConfig& config, nlohmann::json& json);
// Adds the tensors of the layer's experts, router and norms. Adds none in a model without experts.
void add_gemma4_experts(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

}  // namespace packtrain
