// Scales each row by its own gate (Qwen2-MoE's shared expert):
//    s_t = logistic(x_t w);   out_t = r_t + s_t y_t
//    dy = s g;   dz = s (1 - s) (g . y);   dx = dz w + sum;   dw = sum over rows of dz x
// x and y [T, H], w [1, H], r, sum and out [T, H] are float32 or bfloat16. The gate s [T, 1] and
// its sums are float32. Deterministic. Bound by memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"

namespace packtrain {

// Returns s, float32 [T, 1].
at::Tensor shared_expert_gate(const at::Tensor& x, const Parameter& weight,
                              const GemmTiming& timing);
// `residual` may be undefined.
at::Tensor shared_expert_gate_forward(const at::Tensor& gate, const at::Tensor& y,
                                      const at::Tensor& residual);
// Returns dz, float32 [T, 1].
at::Tensor shared_expert_gate_backward_logit(const at::Tensor& grad_output, const at::Tensor& gate,
                                             const at::Tensor& y);
// Returns dy.
at::Tensor shared_expert_gate_backward(const at::Tensor& grad_output, const at::Tensor& gate);
// Returns dx. `sum` (another gradient of x) may be undefined.
at::Tensor shared_expert_gate_backward_input(const at::Tensor& grad_logit, const Parameter& weight,
                                             const at::Tensor& sum);
void shared_expert_gate_backward_weight(const at::Tensor& grad_logit, const at::Tensor& x,
                                        const Parameter& weight, const GemmTiming& timing);

}  // namespace packtrain
