#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

// Writes the products [E, N, K] of groups into the gradient of weight [E, N, K], float32 or their
// dtype, or adds them where it accumulates; zeros for groups without rows, whatever lies there.
// Groups end at ends[e] (int32 [E]). CUDA, bfloat16.
void write_grouped_gradient_cuda(const Parameter& weight, const at::Tensor& products,
                                 const at::Tensor& ends);

}  // namespace packtrain
