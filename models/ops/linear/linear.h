// Linear map of rows:  y = x W^T + b;  dx = g W;  dW = g^T x;  db = sum over rows of g
// x [T, K], W [N, K], b [N], y [T, N], one dtype: float32 or bfloat16 (sums in float32). dW is
// written by the matrix product itself. Deterministic. 2 T N K operations forward, 4 backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

// `bias` may be null.
at::Tensor linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias);
// Writes d weight and d bias, returns dx.
at::Tensor linear_backward(const at::Tensor& grad_output, const at::Tensor& x,
                           const Parameter& weight, const Parameter* bias);

// The pair for autograd. `weight` and `bias` must stay where they are until the backward has run.
at::Tensor linear(const at::Tensor& x, const Parameter& weight, const Parameter* bias);

}  // namespace packtrain
