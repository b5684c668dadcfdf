#pragma once

#include "models/block.h"

namespace packtrain {

// Writes (or adds) the columns' sums of grad_output [T, N], T and N > 0, contiguous on CUDA, into
// bias.grad: summed in float32, rounded once.
void bias_gradient_cuda(const at::Tensor& grad_output, const Parameter& bias);

}  // namespace packtrain
