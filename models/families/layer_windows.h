// What differs between layers in config.json: sliding windows, and rotary positions.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/layers/decoder_config.h"

namespace packtrain {

class ConfigReader;

// Sets `window` in each layer for which `slides` is true; 0 sets none. num_layers must be set.
void set_windows(DecoderConfig& config, std::int64_t window,
                 const std::function<bool(std::int64_t layer)>& slides);

// Reads `layer_types`, one text for each layer: "sliding_attention" has `window`, "full_attention"
// none. If it is not set, `slides` is the fallback of transformers. Refuses other texts, another
// number of texts, and "sliding_attention" when `window` is 0.
void read_layer_types(ConfigReader& reader, DecoderConfig& config, std::int64_t window,
                      const std::function<bool(std::int64_t layer)>& slides);

// Gives the layers with a window their own rotary positions (DecoderConfig::local_rotary).
void turn_windows_apart(DecoderConfig& config);

// Takes the rotary positions from each layer for which `turns` is false. num_layers must be set.
void set_rotary_layers(DecoderConfig& config, const std::function<bool(std::int64_t layer)>& turns);

// Which layers have rotary positions (no_rope_layers): 1, and 0 for those without. If it is not set
// or empty, each layer but every no_rope_layer_interval-th one has them. num_layers must be set.
std::vector<std::int64_t> read_rotary_layers(ConfigReader& reader, const DecoderConfig& config);
// Inverse of read_rotary_layers.
std::vector<std::int64_t> write_rotary_layers(const DecoderConfig& config);

// Inverse of read_layer_types.
std::vector<std::string> write_layer_types(const DecoderConfig& config);
// Writes json["layer_types"] and json["sliding_window"]. The latter is `unused` when no layer
// slides, because transformers requires a value even then.
void write_layer_types(const DecoderConfig& config, std::int64_t unused, nlohmann::json& json);

// The window of the layers that have one; 0 when none has.
std::int64_t window_of(const DecoderConfig& config);
// The first layer with a window; num_layers when none has.
std::int64_t first_window(const DecoderConfig& config);

}  // namespace packtrain
