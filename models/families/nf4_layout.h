// Which parameters NF4 cannot store.
#pragma once

#include <set>
#include <string>

#include "models/layers/decoder_config.h"

namespace packtrain {

// The parameters of which a Hugging Face tensor has another order, or is divided between several
// parameters. Examples are interleaved heads, and transposed or stacked experts. A block of NF4 is
// 64 elements of a tensor in the tensor's order. Empty for a model without a family.
std::set<std::string> parameters_that_cut_tensors(const DecoderConfig& config);

}  // namespace packtrain
