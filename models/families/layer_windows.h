// Sliding windows of attention in config.json: which layers have one.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/decoder_config.h"

namespace packtrain {

class ConfigReader;

// `window` for each layer of which `slides` says so; 0: for none. Needs num_layers set.
void set_windows(DecoderConfig& config, std::int64_t window,
                 const std::function<bool(std::int64_t layer)>& slides);

// Reads `layer_types`, a text for each layer: "sliding_attention" has `window`, "full_attention"
// none. Where it is not set, `slides` is transformers' fallback. Refused: another text, another
// number of them, and "sliding_attention" when `window` is 0.
void read_layer_types(ConfigReader& reader, DecoderConfig& config, std::int64_t window,
                      const std::function<bool(std::int64_t layer)>& slides);

// The layers with a window have rotary positions of their own (DecoderConfig::local_rotary).
void turn_windows_apart(DecoderConfig& config);

// What read_layer_types reads.
std::vector<std::string> write_layer_types(const DecoderConfig& config);
// The same into json["layer_types"], and json["sliding_window"]: `unused` where no layer slides,
// since transformers wants one even then.
void write_layer_types(const DecoderConfig& config, std::int64_t unused, nlohmann::json& json);

// The window of the layers that have one; 0: none has.
std::int64_t window_of(const DecoderConfig& config);
// The first layer that has one; num_layers: none has.
std::int64_t first_window(const DecoderConfig& config);

}  // namespace packtrain
