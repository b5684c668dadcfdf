// The nonlinearity between the two projections of an MLP: gated (Shazeer, arXiv 2002.05202) on a
// merged projection x = [gate | up], or plain:
//    gated  y = f(gate) u(up);   d gate = g u(up) f'(gate);   d up = g f(gate) u'(up)
//    plain  y = f(x);            dx = g f'(x)
// Functions, with s the logistic function:
//    SiLU           f(z) = z s(z)
//    GELU           f(z) = z (1 + erf(z / sqrt(2))) / 2
//    GELU tanh      f(z) = z s(2 sqrt(2 / pi) (z + 0.044715 z^3))
//    clamped swish  f(z) = z s(1.702 z), z clamped to <= 7; slopes beyond the limits are 0;
//                   u(up) = 1 + up, up clamped to [-7, 7]. For the others u(up) = up.
//    squared ReLU   f(z) = max(z, 0)^2
// GELU is by Hendrycks and Gimpel, arXiv 1606.08415, squared ReLU by So et al., arXiv 2109.08668,
// and clamped swish is gpt-oss's. Shapes are x
// [T, 2 I] (plain [T, I]) and y [T, I], float32 or bfloat16. Computes in float32 and rounds once.
// Deterministic. Gated activations move 3 T I elements forward and 5 T I backward, plain ones
// 2 T I and 3 T I. Recomputed outputs add T I.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/activation/activation_kind.h"

namespace packtrain {

// Also writes the amax of y to `amax` (make_fp8_amax() in ops/fp8/fp8.h), when it is defined.
at::Tensor activation_forward(const at::Tensor& x, const Activation& activation,
                              const at::Tensor& amax = {});
// Returns dx. Writes y to `recomputed_output` [T, I], and the amax of dx to `amax`, when they are
// defined.
at::Tensor activation_backward(const at::Tensor& grad_output, const at::Tensor& x,
                               const Activation& activation,
                               const at::Tensor& recomputed_output = {},
                               const at::Tensor& amax = {});
// The same in the memory of its inputs, contiguous: dx replaces x. With `recomputes_output`, y
// replaces grad_output.
void activation_backward_in_place(const at::Tensor& grad_output, const at::Tensor& x,
                                  const Activation& activation, bool recomputes_output,
                                  const at::Tensor& amax = {});

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
at::Tensor activation_forward_cuda(const at::Tensor& x, const Activation& activation,
                                   const at::Tensor& amax);
// `dx` may be x, and `recomputed_output`, when it is defined, grad_output.
void activation_backward_cuda(const at::Tensor& grad_output, const at::Tensor& x,
                              const Activation& activation, const at::Tensor& dx,
                              const at::Tensor& recomputed_output, const at::Tensor& amax);

}  // namespace packtrain
