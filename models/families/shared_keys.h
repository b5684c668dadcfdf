// Layers that attend to the keys and values of an earlier layer (num_kv_shared_layers), as Gemma 3n
// and Gemma 4 have them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/families/config_reader.h"
#include "models/families/weight_map.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Reads num_kv_shared_layers with this fallback. The last layers attend to the keys and values of
// the last layer before them that has the same window. `config.layers` must have all layers.
void read_shared_keys(ConfigReader& reader, DecoderConfig& config, std::int64_t fallback);
// Its inverse.
void write_shared_keys(const DecoderConfig& config, nlohmann::json& json);
// Tensors of a layer's attention. A layer that reads keys and values has none for them.
void add_attention_with_shared_keys(WeightMap& map, const DecoderConfig& config,
                                    std::int64_t layer);
// True for a projection or norm of keys or values in a layer that reads those of another layer.
// Published files have such tensors (Family::leaves_out).
bool is_unread_key(const DecoderConfig& config, const std::string& tensor);

}  // namespace packtrain
