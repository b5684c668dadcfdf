// Embedding look-up:
//    y_t = W[id_t];  dW[v] = sum of g_t over all t with id_t = v
// The ids are int32 [T]. W [V, H] and y [T, H] are float32 or bfloat16, and dW is float32 or of W's
// dtype. Sums of dW are float32 in a fixed order. On the CPU this is the order of t. On CUDA the
// sorted ids fix it, and a frequent id has partial sums of 32 rows each. Ids must be below V, which
// the token store checks.
//
// Elements that must move: forward 2 T H, backward T H + V H. A backward that adds moves T H plus
// twice the present rows.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

at::Tensor embedding_forward(const at::Tensor& ids, const Parameter& weight);
// Writes all rows of dW. With `accumulate` it adds, and touches only the rows of ids present.
void embedding_backward(const at::Tensor& grad_output, const at::Tensor& ids,
                        const Parameter& weight);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
at::Tensor embedding_forward_cuda(const at::Tensor& ids, const Parameter& weight);
void embedding_backward_cuda(const at::Tensor& grad_output, const at::Tensor& ids,
                             const Parameter& weight);

}  // namespace packtrain
