// Which rows of each parameter are which Hugging Face tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/block/block.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// By parameter, in the order of the rows: derived from the family's weight map. Throws
// Error(kInternal) when a tensor ends inside a row.
std::map<std::string, std::vector<ParameterPart>> parameter_parts(const DecoderConfig& config);

}  // namespace packtrain
