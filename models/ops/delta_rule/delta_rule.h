// The gated delta rule (Yang et al., arXiv 2412.06464) of packed sequences. Each head has a state S
// [K, V], which is zero at the start of each sequence. G heads of values share one of queries and
// keys, whose number is h / G for value head h. The rule of row t is as follows.
//    S <- exp(g_t) S;   d_t = beta_t (v_t - S^T k_t);   S <- S + k_t d_t^T;   o_t = scale S^T q_t
//
// q, k [T, H / G, K], v and o [T, H, V] are float32 or bfloat16; g and beta [T, H] are float32.
// `boundaries` [sequences + 1] rise from 0 to T; a sequence may be empty. Computes in float32 and
// rounds once. The plain form computes chunks of rows as products (Yang et al., arXiv 2406.06484).
// The running sum of g in a chunk is a, and its first state is S. Then d solves
//    (1 + L) d = beta (v - exp(a) k S),   L_ij = beta_i exp(a_i - a_j) k_i k_j for j < i
// Deterministic: sums follow the rows of a sequence, so that no other sequence changes a bit.
// Backward computes the states again.
//
// On a GPU bfloat16 with K and V of multiples of 8, K <= 128, is computed on tensor cores. There
// the state, d and scores are rounded to bfloat16 before products; sums and the state that is
// carried on are float32. Other sizes and float32 have slower kernels in float32, and so have GPUs
// whose blocks have less shared memory than kDeltaRuleSharedBytes (8.6, 8.9, 12.0). A CUDA graph
// cannot have the operator, whose boundaries are copied from the host.
//
// Operations: forward T H (6 K V + C (3 K + 2 V)) multiply-adds at most, for chunks of C rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

namespace packtrain {

struct DeltaRuleTables;  // device_table_cuda.h

inline constexpr std::int64_t kDeltaRuleChunk = 64;

struct DeltaRuleInputs {
  at::Tensor q;
  at::Tensor k;
  at::Tensor v;
  at::Tensor g;     // logarithm of the decay, at most 0
  at::Tensor beta;  // strength of a write
};

struct DeltaRuleOptions {
  std::span<const std::int32_t> boundaries;  // of the sequences
  double scale = 1.0;
  // Where a batch keeps the chunks of these boundaries on a GPU, for its next calls
  // (BatchState::delta_rule_tables). Null: each call makes them.
  std::shared_ptr<DeltaRuleTables>* tables = nullptr;
};

// Returns o, of v's dtype. Throws Error(kInternal), which names shapes, when they do not fit.
at::Tensor delta_rule_forward(const DeltaRuleInputs& inputs, const DeltaRuleOptions& options);
// Returns the gradients of all inputs, each of the input's dtype.
DeltaRuleInputs delta_rule_backward(const at::Tensor& grad_output, const DeltaRuleInputs& inputs,
                                    const DeltaRuleOptions& options);

// The same on CUDA tensors, whose shapes fit. no_cuda_mixers.cpp has them in a build without CUDA.
at::Tensor delta_rule_forward_cuda(const DeltaRuleInputs& inputs, const DeltaRuleOptions& options);
DeltaRuleInputs delta_rule_backward_cuda(const at::Tensor& grad_output,
                                         const DeltaRuleInputs& inputs,
                                         const DeltaRuleOptions& options);

}  // namespace packtrain
