// Embedding look-up:  y_t = W[id_t];  dW[v] = sum of g_t over all t with id_t = v. The ids are
// int32 [T], W [V, H] and y [T, H] float32 or bfloat16, dW float32 or W's dtype. dW is summed in
// float32: on the CPU in the order of t, on CUDA in an order that the sorted ids fix, where a
// frequent id has partial sums of 32 rows each. Both are deterministic. Ids must be below V, which
// the token store checks. Elements that must move: forward 2 T H, backward T H + V H. A backward
// that adds to a gradient moves T H and twice the rows of ids present.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

at::Tensor embedding_forward(const at::Tensor& ids, const Parameter& weight);
// Writes all rows of dW. With `accumulate` it adds, and touches only the rows of ids present.
void embedding_backward(const at::Tensor& grad_output, const at::Tensor& ids,
                        const Parameter& weight);

}  // namespace packtrain
