// Embedding look-up:  y_t = W[id_t];  dW[v] = sum of g_t over all t with id_t = v
// ids int32 [T], W [V, H], y [T, H], float32 or bfloat16, dW float32 or W's dtype. dW is summed in
// float32, on the CPU in the order of t, on CUDA in an order that sorted ids fix (a frequent id in
// partial sums of 32 rows each): deterministic on both. Ids must be below V (the token store checks
// that). Elements that must move: forward 2 T H, backward T H + V H, or, added to a gradient,
// T H + twice the rows of ids present.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

at::Tensor embedding_forward(const at::Tensor& ids, const Parameter& weight);
// Writes d weight, all rows of it; with `accumulate` only the rows of ids present are touched.
void embedding_backward(const at::Tensor& grad_output, const at::Tensor& ids,
                        const Parameter& weight);

}  // namespace packtrain
