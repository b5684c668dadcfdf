// Root-mean-square normalisation (Zhang and Sennrich, arXiv 1910.07467), over the last dimension:
//   r = 1 / sqrt(mean(x^2) + epsilon);  y = x r w
//   dx = r (g w - x r mean(g w x r));   dw = sum over rows of g x r
// x, y [T, H] float32 or bfloat16, w [H] of the same dtype; all maths in float32, rounded once.
// Deterministic. Bytes that must move: forward 2 T H, backward 3 T H elements (+ H).
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"

namespace packtrain {

struct RmsNormOutput {
  at::Tensor y;
  at::Tensor inverse_rms;  // float32 [T, 1], for backward
};

RmsNormOutput rms_norm_forward(const at::Tensor& x, const Parameter& weight, double epsilon);
// Writes d weight, returns dx.
at::Tensor rms_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                             const at::Tensor& inverse_rms, const Parameter& weight);

// The pair for autograd. `weight` must stay where it is until the backward has run.
at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double epsilon);

}  // namespace packtrain
