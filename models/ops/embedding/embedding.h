// Embedding look-up:  y_t = W[id_t];  dW[v] = sum of g_t over all t with id_t = v
// ids int32 [T], W [V, H], y [T, H], float32 or bfloat16. dW is summed in float32 and in the order
// of t on the CPU, by sorted ids on CUDA: deterministic on both. Ids must be below V (the token
// store checks that). Elements that must move: forward 2 T H, backward T H + V H.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

at::Tensor embedding_forward(const at::Tensor& ids, const Parameter& weight);
// Writes d weight, all rows of it.
void embedding_backward(const at::Tensor& grad_output, const at::Tensor& ids,
                        const Parameter& weight);

}  // namespace packtrain
