// Layer normalization (Ba et al., arXiv 1607.06450) over the last dimension:
//    m = mean(x);  r = 1 / sqrt(mean((x - m)^2) + epsilon);  n = (x - m) r;  y = n w + b
//    dx = r (g w - mean(g w) - n mean(g w n)) + grad_residual;   dw = sum of g n;  db = sum of g
// x and y [T, H] are float32 or bfloat16. w and b [H] have the same dtype, dw and db that dtype or
// float32. Computes in float32 and rounds once. Any H is allowed; rows of whole 16-byte vectors are
// fast. Deterministic: partial sums of dw and db follow a fixed partition of the rows.
//
// Elements that must move: forward 2 T H, backward 3 T H. grad_residual and recomputed_output add T
// H each.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

struct LayerNormOptions {
  double epsilon = 1e-5;
};

struct LayerNormOutput {
  at::Tensor y;
  at::Tensor mean;               // float32 [T, 1], for backward
  at::Tensor inverse_deviation;  // float32 [T, 1], for backward
};

// `bias` may be null. Also writes the amax of y to `amax` (make_fp8_amax() in ops/fp8/fp8.h), when
// it is defined.
LayerNormOutput layer_norm_forward(const at::Tensor& x, const Parameter& weight,
                                   const Parameter* bias, const LayerNormOptions& options,
                                   const at::Tensor& amax = {});
// Writes dw and db. Returns dx, plus grad_residual when it is defined. Writes y to
// `recomputed_output` [T, H] when it is defined.
at::Tensor layer_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse_deviation,
                               const Parameter& weight, const Parameter* bias,
                               const at::Tensor& grad_residual = {},
                               const at::Tensor& recomputed_output = {});

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
LayerNormOutput layer_norm_forward_cuda(const at::Tensor& x, const Parameter& weight,
                                        const Parameter* bias, const LayerNormOptions& options,
                                        const at::Tensor& amax);
at::Tensor layer_norm_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse_deviation,
                                    const Parameter& weight, const Parameter* bias,
                                    const at::Tensor& grad_residual,
                                    const at::Tensor& recomputed_output);

}  // namespace packtrain
