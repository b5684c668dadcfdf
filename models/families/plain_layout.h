// Weights of families with projections for queries, keys and values, layer norms and an MLP without
// a gate (Phi, StarCoder2). A family says how it calls what others call otherwise.
#pragma once

#include <vector>

#include "models/decoder_config.h"
#include "models/families/weight_map.h"

namespace packtrain {

// Inside `model.layers.N.`, but the last.
struct PlainLayout {
  const char* attention_output;
  const char* up;
  const char* down;
  const char* final_norm;  // inside `model.`
};

// Biases and the second norm of a layer where the config has them.
std::vector<WeightPiece> plain_layout_weights(const DecoderConfig& config,
                                              const PlainLayout& layout);

}  // namespace packtrain
