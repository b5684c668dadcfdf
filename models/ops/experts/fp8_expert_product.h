// The products of experts' rows with 8-bit operands. Rows and gradients have one scale each, and so
// have the matrices of all experts, which may be known (Parameter::fp8_scale). They are cast for
// each product, or were gathered as codes. Formats are those of fp8_linear.h.
//    y[a] = W[e] x[a]       x and W in e4m3
//    dx[a] = W[e]^T g[a]    g in e5m2, W in e4m3
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"
#include "models/ops/experts/token_permutation.h"

namespace packtrain {

// True if the products of weights [E, out, in] can have 8-bit operands.
bool fp8_takes_experts(at::IntArrayRef weight);

// True if these products save more time than their casts take, on an H100 with 16,384 tokens and
// weights whose gradients are bfloat16. Experts are gated, of width `inner`.
bool fp8_experts_are_faster(std::int64_t hidden, std::int64_t inner, std::int64_t num_experts,
                            std::int64_t experts_per_token);

// Rows are [A, in], in the order of experts. `amax`: that of Fp8Cast. Returns [A, out].
at::Tensor fp8_expert_forward(const at::Tensor& rows, const at::Tensor& amax,
                              const Parameter& weight, const at::Tensor& ends,
                              const GemmTiming& timing);
// The same of tokens x [T, in], whose codes are permuted.
at::Tensor fp8_expert_forward(const at::Tensor& x, const at::Tensor& amax, const Parameter& weight,
                              const TokenPermutation& order, const GemmTiming& timing);
// grad [A, out]. Returns [A, in].
at::Tensor fp8_expert_backward_input(const at::Tensor& grad, const at::Tensor& amax,
                                     const Parameter& weight, const at::Tensor& ends,
                                     const GemmTiming& timing);

}  // namespace packtrain
