// Rotary positions in config.json, old layout (rope_theta, rope_scaling) and that of transformers 5
// (rope_parameters).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/decoder_config.h"

namespace packtrain {

class ConfigReader;

// Reads either layout into config.rotary_base and config.rotary_scaling; needs max_positions set.
void read_rotary(ConfigReader& reader, DecoderConfig& config);
// The value of rope_parameters; rope_scaling of the old layout takes the same keys.
nlohmann::json write_rotary(const DecoderConfig& config);

}  // namespace packtrain
