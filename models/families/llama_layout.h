// The layout that Llama's relatives share: names of keys in config.json and of weights. A family
// says what of it differs.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/families/config_reader.h"
#include "models/families/family.h"
#include "models/families/rotary_config.h"

namespace packtrain {

// Reads and checks sizes, norms, rotary positions and embeddings; requires SiLU;
// names the keys that change nothing in training. The family's own keys, and finish(), are the
// caller's.
void read_llama_layout(ConfigReader& reader, DecoderConfig& config,
                       const RotaryDefaults& rotary = {});

// Biases where the config has them. `add_experts` maps what a layer with experts has in the place
// of its MLP.
using AddExperts = std::function<void(WeightMap& map, std::int64_t layer)>;
std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config,
                                              const AddExperts& add_experts);
std::vector<WeightPiece> llama_layout_weights(const DecoderConfig& config);

// What read_llama_layout reads.
nlohmann::json write_llama_layout(const DecoderConfig& config);

}  // namespace packtrain
