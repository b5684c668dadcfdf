// Scaling of rotary frequencies, from an object of config.json (rotary_config.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "models/layers/decoder_config.h"

namespace packtrain {

class ConfigReader;

// Reads and checks rope_type (or type) and its parameters. `config` must have max_positions and
// resolved_rotary_dim(). `original_max_positions` is the key outside of the object and has priority
// over that inside; 0: not set.
RotaryScaling read_rotary_scaling(ConfigReader& rope, const DecoderConfig& config, double base,
                                  std::int64_t original_max_positions);
// Reads the parameters of rope_type "proportional", which turns the first part of the pairs.
RotaryScaling read_proportional_rotary(ConfigReader& rope);
// The same keys under the names of transformers 5.
nlohmann::json write_rotary_scaling(const RotaryScaling& scaling);

}  // namespace packtrain
