// The nonlinearity between the two projections of an MLP, gated (Shazeer, arXiv 2002.05202) on a
// merged projection x = [gate | up], or plain:
//   gated  y = f(gate) u(up);   d gate = g u(up) f'(gate);   d up = g f(gate) u'(up)
//   plain  y = f(x);            dx = g f'(x)
// f: SiLU z s(z), s the logistic function; GELU (Hendrycks and Gimpel, arXiv 1606.08415)
// z (1 + erf(z / sqrt(2))) / 2, or its tanh form z s(2 sqrt(2 / pi) (z + 0.044715 z^3)); u(up) =
// up. Clamped swish (gpt-oss): f(z) = z s(1.702 z) of z clamped to <= 7, u(up) = 1 + up clamped to
// [-7, 7]; slopes beyond the limits are 0.
// x [T, 2 I] (plain [T, I]), y [T, I], float32 or bfloat16; maths in float32, rounded once.
// Deterministic. Elements that must move: gated 3 T I forward, 5 T I backward; plain 2 and 3 T I;
// T I more for recomputed_output.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/activation/activation_kind.h"

namespace packtrain {

at::Tensor activation_forward(const at::Tensor& x, const Activation& activation);
// Returns dx. `recomputed_output` [T, I], when defined, receives y once more.
at::Tensor activation_backward(const at::Tensor& grad_output, const at::Tensor& x,
                               const Activation& activation,
                               const at::Tensor& recomputed_output = {});

}  // namespace packtrain
