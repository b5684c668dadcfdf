// The gated delta rule (ops/delta_rule) reads queries and keys of length 1. It also reads the decay
// and the strength of each write (Yang et al., arXiv 2412.06464).
//    q' = q / sqrt(sum of q^2 + 1e-6), and the same for k
//    g = -exp(A) softplus(a + dt);   beta = m s(b), with s the logistic function
//    dq = (dq' - q' (q' . dq')) / sqrt(sum of q^2 + 1e-6), and the same for k
//    da = -dg exp(A) s(a + dt);   dA = sum over rows of dg g;   d dt = sum over rows of da
//    db = dbeta beta (1 - s(b))
// Rows of `mixed` [T, 2 G K + H V] are G heads of queries, G of keys, and H of values. Rows of `ba`
// [T, 2 H] are b, then a. Both are float32 or bfloat16. A and dt [H] are float32 or bfloat16, their
// gradients float32 or bfloat16. Computes in float32 and rounds once. Deterministic.
//
// Elements that must move: forward 4 T G K, backward 6 T G K + 2 T H V.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/block.h"
#include "models/ops/delta_rule/delta_rule.h"

namespace packtrain {

struct DeltaGates {
  const Parameter& a_log;    // A
  const Parameter& dt_bias;  // dt
  std::int64_t num_key_heads = 0;
  std::int64_t key_head_dim = 0;
  double beta_multiplier = 1.0;  // m
};

struct DeltaGatesGradients {
  at::Tensor mixed;
  at::Tensor ba;
};

// Returns q', k' [T, G, K] of mixed's dtype, and g and beta [T, H] in float32. Member v is a view
// of mixed [T, H, V], whose rows have gaps. Throws Error(kInternal), which names shapes, when they
// do not fit.
DeltaRuleInputs delta_gates_forward(const at::Tensor& mixed, const at::Tensor& ba,
                                    const DeltaGates& gates);
// Writes dA and d dt. `grads` are the gradients of what forward returned. That of v is copied to
// the gradient of mixed.
DeltaGatesGradients delta_gates_backward(const DeltaRuleInputs& grads, const at::Tensor& mixed,
                                         const at::Tensor& ba, const DeltaGates& gates);

// On CUDA tensors. The functions above call these; no_cuda_mixers.cpp has them in a build without
// CUDA.
DeltaRuleInputs delta_gates_forward_cuda(const at::Tensor& mixed, const at::Tensor& ba,
                                         const DeltaGates& gates);
DeltaGatesGradients delta_gates_backward_cuda(const DeltaRuleInputs& grads, const at::Tensor& mixed,
                                              const at::Tensor& ba, const DeltaGates& gates);

// The heads of values in rows of `mixed`, a view [T, H, V].
at::Tensor delta_values(const at::Tensor& mixed, std::int64_t num_heads, const DeltaGates& gates);

}  // namespace packtrain
