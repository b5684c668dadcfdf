// Tensors of layers' own inputs (DecoderConfig::layer_input_width), as Gemma 3n and Gemma 4 name
// them. Neither function adds any where layers have none.
#pragma once

#include <cstdint>

#include "models/families/weight_map.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Those that compute the inputs of all layers.
void add_inputs_of_layers(WeightMap& map, const DecoderConfig& config);
// Those of the branch of a layer, with the norm after it.
void add_layer_input(WeightMap& map, const DecoderConfig& config, std::int64_t layer);

}  // namespace packtrain
