// xIELU, an activation with two trained numbers (Huang and Schlag, arXiv 2411.13010):
//    x > 0    y = p x^2 + b x
//    else     y = n (exp(min(x, e)) - 1 - x) + b x
// with p = softplus(alpha_p) and n = b + softplus(alpha_n). b and e are constants, e slightly below
// 0. The gradients are, with min(x, e) constant from e on,
//    x > 0    dx = g (2 p x + b),                        dp += g x^2
//    else     dx = g (n (exp(x) [x < e] - 1) + b),       dn += g (exp(min(x, e)) - 1 - x)
// Those of alpha_p and alpha_n are dp and dn times logistic functions of them. x and y [T, I] are
// float32 or bfloat16. Computes in float32, near 0 by the series of exp, and rounds once. Sums are
// in a fixed order, so that all is deterministic. Elements that must move: forward 2 T I, backward
// 3 T I. Recomputed outputs add T I. Nothing waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

// Each is [1], float32. Those of the last two have no gradient.
struct XieluParameters {
  const Parameter& alpha_p;
  const Parameter& alpha_n;
  const Parameter& beta;
  const Parameter& epsilon;
};

at::Tensor xielu_forward(const at::Tensor& x, const XieluParameters& parameters);
// dx replaces x, which is contiguous, as grad_output is. With `recomputes_output`, y replaces
// grad_output. Writes the gradients of both alphas.
void xielu_backward_in_place(const at::Tensor& grad_output, const at::Tensor& x,
                             const XieluParameters& parameters, bool recomputes_output);

// On CUDA tensors. The functions above call these; no_cuda_mixers.cpp has them in a build without
// CUDA. `numbers` has p, n, b and e, float32 [4].
at::Tensor xielu_forward_cuda(const at::Tensor& x, const at::Tensor& numbers);
// `recomputed_output` may be undefined. Returns dp and dn, float32 [2].
at::Tensor xielu_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                               const at::Tensor& numbers, const at::Tensor& recomputed_output);

}  // namespace packtrain
