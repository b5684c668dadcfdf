// The tensors of Nemotron-H. Files have the prefix backbone and a tensor for each weight of an
// expert. The modules of transformers have the prefix model, and stack the experts.
#pragma once

#include <vector>

#include "models/families/weight_map.h"

namespace packtrain {

std::vector<WeightPiece> weights_of_nemotron_h(const DecoderConfig& config);
std::vector<std::vector<WeightPiece>> other_weights_of_nemotron_h(const DecoderConfig& config);
std::vector<WeightPiece> modules_of_nemotron_h(const DecoderConfig& config);

}  // namespace packtrain
