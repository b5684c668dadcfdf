// Layer normalisation (Ba et al., arXiv 1607.06450), over the last dimension, of a residual stream
// that may still have to be added up:
//   s = x + residual;  m = mean(s);  r = 1 / sqrt(mean((s - m)^2) + epsilon);  n = (s - m) r
//   y = n w + b
//   ds = r (g w - mean(g w) - n mean(g w n)) + grad_residual;   dw = sum of g n;  db = sum of g
// x, residual, y [T, H] float32 or bfloat16, w and b [H] of the same dtype, dw and db float32 or
// that dtype; all maths in float32, rounded once (s too, before it is normed). Any H; rows that are
// whole 16-byte runs are fast. Deterministic: partial sums of dw and db go by a fixed partition of
// the rows. Elements that must move: forward 2 T H (4 T H with a residual), backward 3 T H, and T H
// each for grad_residual and recomputed_output.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

struct LayerNormOptions {
  double epsilon = 1e-5;
};

struct LayerNormOutput {
  at::Tensor y;
  at::Tensor mean;               // float32 [T, 1], for backward
  at::Tensor inverse_deviation;  // float32 [T, 1], for backward
  at::Tensor sum;                // x + residual, the x of backward; x itself without a residual
};

// `bias` may be null.
LayerNormOutput layer_norm_forward(const at::Tensor& x, const Parameter& weight,
                                   const Parameter* bias, const LayerNormOptions& options,
                                   const at::Tensor& residual = {});
// Writes d weight and d bias, returns dx (with grad_residual added, when defined).
// `recomputed_output` [T, H], when defined, receives y once more.
at::Tensor layer_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse_deviation,
                               const Parameter& weight, const Parameter* bias,
                               const at::Tensor& grad_residual = {},
                               const at::Tensor& recomputed_output = {});

}  // namespace packtrain
