// Root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467), over the last dimension,
// of a residual stream that may still have to be added up:
//   s = x + residual;  r = 1 / sqrt(mean(s^2) + epsilon);  v = offset + w;  y = s r v
//   ds = r (g v - s r mean(g v s r)) + grad_residual;   dw = sum over rows of g s r
// x, residual, y [T, H] float32 or bfloat16, w [H] of the same dtype, dw float32 or that dtype; all
// maths in float32, rounded once (s too, before it is normed). Any H; rows that are whole 16-byte
// runs are fast. Deterministic: dw's partial sums go by a fixed partition of the rows.
// Elements that must move: forward 2 T H (4 T H with a residual), backward 3 T H, and T H each for
// grad_residual and recomputed_output.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

struct RmsNormOptions {
  double epsilon = 1e-6;
  double weight_offset = 0;  // Gemma keeps weights around 0 and scales by 1 + w
};

struct RmsNormOutput {
  at::Tensor y;
  at::Tensor inverse_rms;  // float32 [T, 1], for backward
  at::Tensor sum;          // x + residual, the x of backward; x itself without a residual
};

RmsNormOutput rms_norm_forward(const at::Tensor& x, const Parameter& weight,
                               const RmsNormOptions& options, const at::Tensor& residual = {});
// Writes d weight, returns dx (with grad_residual added, when defined). `recomputed_output` [T, H],
// when defined, receives y once more.
at::Tensor rms_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                             const at::Tensor& inverse_rms, const Parameter& weight,
                             const RmsNormOptions& options, const at::Tensor& grad_residual = {},
                             const at::Tensor& recomputed_output = {});

// The same without copies for rows that lie apart, as queries do among keys and values: x, y and
// grad [T, H] with the same stride from row to row, elements side by side. Throw Error(kInternal)
// on others.
// Writes y, which must not overlap x; returns inverse_rms.
at::Tensor rms_norm_forward_into(const at::Tensor& y, const at::Tensor& x, const Parameter& weight,
                                 const RmsNormOptions& options);
// Writes d weight and turns `grad`, that of y, into dx.
void rms_norm_backward_(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& inverse_rms,
                        const Parameter& weight, const RmsNormOptions& options);

}  // namespace packtrain
