// Linear layer:
//    y = a x W^T + b + r;  dx = a g W + s;  dW = a g^T x;  db = sum over rows of g
// a is a constant. x [T, K], W [N, K], b [N], r and y [T, N], s and dx [T, K] have one dtype.
// It is float32 or bfloat16. Sums are float32. The gradients of W and b have that dtype or are
// float32. The GEMM itself writes them or adds to them. Deterministic. 2 T N K operations forward,
// 4 backward.
//
// A weight that is stored encoded is decoded for each product (ops/encoded_weight.h), in the
// product itself where a kernel does (nf4_gemm_cuda.h).
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

// scale x W^T + b + residual. `bias` may be null, `residual` undefined.
at::Tensor linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                          const GemmTiming& timing, const at::Tensor& residual = {},
                          double scale = 1.0);
// scale g W + sum. `sum` (another gradient of x) may be undefined.
at::Tensor linear_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                 const GemmTiming& timing, const at::Tensor& sum = {},
                                 double scale = 1.0);
// Writes dW and db. Frozen parameters cost nothing.
void linear_backward_weight(const at::Tensor& grad_output, const at::Tensor& x,
                            const Parameter& weight, const Parameter* bias,
                            const GemmTiming& timing, double scale = 1.0);
void linear_backward_bias(const at::Tensor& grad_output, const Parameter& bias);

}  // namespace packtrain
