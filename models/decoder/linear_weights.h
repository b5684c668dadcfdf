// The weights of a decoder's linear layers, and which of them multiply in 8-bit floats.
#pragma once

#include <string>
#include <vector>

#include "models/layers/decoder_config.h"

namespace packtrain {

struct LinearWeights {
  std::vector<std::string> in_fp8;  // names
  std::vector<std::string> kept;    // that a pattern of LinearPrecision::keep names
  // Of DoRA with dropout: each module has a product of its own.
  std::vector<std::string> divided;
  std::vector<std::string> odd;  // whose sizes are not multiples of 16
  // Each is the weight of all experts of a layer. Its gradient is not in 8 bits.
  std::vector<std::string> experts_in_fp8;
  std::vector<std::string> experts;  // not in 8 bits
};

// Throws Error(kConfig) when a pattern of LinearPrecision::keep matches no weight.
LinearWeights linear_weights(const DecoderConfig& config);

}  // namespace packtrain
