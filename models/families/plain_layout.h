// Weights of families with separate query, key and value projections, layer norms and an MLP
// without gate (Phi, StarCoder2). Families pass the tensor names that differ.
#pragma once

#include <vector>

#include "models/families/weight_map.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Names inside `model.layers.N.`, except the last one.
struct PlainLayout {
  const char* attention_output;
  const char* up;
  const char* down;
  const char* final_norm;  // inside `model.`
};

// Includes biases and the second norm of a layer if the config has them.
std::vector<WeightPiece> plain_layout_weights(const DecoderConfig& config,
                                              const PlainLayout& layout);

}  // namespace packtrain
