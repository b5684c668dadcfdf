#pragma once

#include "models/block/block.h"

namespace packtrain {

// Writes the column sums of grad_output [T, N] to bias.grad, or adds them. T and N are above 0; the
// tensor is contiguous on CUDA. Sums in float32 and rounds once.
void bias_gradient_cuda(const at::Tensor& grad_output, const Parameter& bias);

}  // namespace packtrain
