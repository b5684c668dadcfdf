// Weights that are stored encoded (ParameterEncoding), as products of precision.compute read them.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

// Writes weight.value if the weight is encoded. Call it before each product that reads the weight:
// the next decode_weight() of the model overwrites the value. On the current stream.
void decode_weight(const Parameter& weight);

// `values`: contiguous float32 or bfloat16, with the elements of all ranges.
void decode(const EncodedParameter& parameter, const at::Tensor& values);

}  // namespace packtrain
