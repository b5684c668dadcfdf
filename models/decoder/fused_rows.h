// Which rows of a decoder's weights belong to which matrix of the model.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/block.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// ParameterSpec::fused_rows of a parameter of a layer: query, key and value; gate and up; the A
// matrices of the modules of a low-rank update. Empty for a weight of one matrix.
std::vector<std::int64_t> fused_rows(const DecoderConfig& config, const ParameterSpec& parameter);

}  // namespace packtrain
