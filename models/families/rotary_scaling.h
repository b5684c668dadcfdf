// How rotary frequencies are scaled, as an object of config.json says it (rotary_config.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "models/decoder_config.h"

namespace packtrain {

class ConfigReader;

// Reads and checks rope_type (or type) and its parameters; `config` has max_positions and
// resolved_rotary_dim(). `original_max_positions` stands beside the object and wins over its own;
// 0: none.
RotaryScaling read_rotary_scaling(ConfigReader& rope, const DecoderConfig& config, double base,
                                  std::int64_t original_max_positions);
// The same keys, as transformers 5 names them.
nlohmann::json write_rotary_scaling(const RotaryScaling& scaling);

}  // namespace packtrain
