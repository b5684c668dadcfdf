// How the layers of Gemma 4 differ: widths of heads, and keys and values of other layers.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/families/config_reader.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Reads per_layer_config (or global_head_dim and num_global_key_value_heads), attention_k_eq_v,
// num_kv_shared_layers and use_double_wide_mlp. The windows must be set. The last layer has none,
// as in transformers.
void read_gemma4_layers(ConfigReader& reader, DecoderConfig& config);
// Its inverse.
void write_gemma4_layers(const DecoderConfig& config, nlohmann::json& json);

}  // namespace packtrain
