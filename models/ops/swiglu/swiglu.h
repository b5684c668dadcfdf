// Gated unit (Shazeer, arXiv 2002.05202) on a merged projection [gate | up]:
//   y = silu(gate) up, silu(z) = z s(z), s the logistic function
//   d gate = g up s (1 + gate (1 - s));  d up = g silu(gate)
// gate_up [T, 2 I], y [T, I], float32 or bfloat16; maths in float32, rounded once. Deterministic.
// Elements that must move: forward 3 T I, backward 5 T I.
#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

at::Tensor swiglu_forward(const at::Tensor& gate_up);
at::Tensor swiglu_backward(const at::Tensor& grad_output, const at::Tensor& gate_up);

at::Tensor swiglu(const at::Tensor& gate_up);  // the pair for autograd

}  // namespace packtrain
