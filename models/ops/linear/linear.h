// Linear map of rows:  y = x W^T + b + r;  dx = g W + s;  dW = g^T x;  db = sum over rows of g
// x [T, K], W [N, K], b [N], r and y [T, N], s and dx [T, K]: one dtype, float32 or bfloat16 (sums
// in float32). The gradients of W and b are of that dtype or float32, and are written, or added to,
// by the matrix product itself. Deterministic. 2 T N K operations forward, 4 backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

// x W^T + b + residual. `bias` may be null, `residual` undefined.
at::Tensor linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                          const at::Tensor& residual = {});
// g W + sum. `sum` (another gradient of x) may be undefined.
at::Tensor linear_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                 const at::Tensor& sum = {});
// Writes d weight and d bias; what is frozen costs nothing.
void linear_backward_weight(const at::Tensor& grad_output, const at::Tensor& x,
                            const Parameter& weight, const Parameter* bias);
void linear_backward_bias(const at::Tensor& grad_output, const Parameter& bias);

}  // namespace packtrain
