// Which rows of a decoder's weights belong to which matrix of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/block.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// ParameterSpec::fused_rows of a parameter of a layer. Attention has those of a gate of its output,
// query, key and value. Latent attention has compressed rows and what keys share. A gated delta
// rule has query, key, value and gate, and strength and decay. MLPs have gate and up, a low-rank
// update the A matrices of its modules. Empty for a weight of one matrix.
std::vector<std::int64_t> fused_rows(const DecoderConfig& config, const ParameterSpec& parameter);

}  // namespace packtrain
