// The state space model of Mamba-2 (Dao and Gu, "Transformers are SSMs", arXiv 2405.21060, section
// 6). For each head h and each row t of a sequence, with state S [N, P]:
//    S_t = exp(g_t) S_{t-1} + b_t (d_t x_t)^T;   y_t = S_t^T c_t + D x_t
// The state before the first row of a sequence is zero. Inputs are x [T, H, P], b [T, G, N] and
// c [T, G, N]. Neighbouring heads share a group. The output y is as x. The steps d and the
// logarithms of decays g are float32 [T, H], and g is at most 0 (steps.h). D is float32 [H]. The
// others are float32 or bfloat16, and their rows may have gaps. `boundaries` [sequences + 1] begin
// with 0 and end with T. A sequence may be empty. No row reads another sequence.
//
// Both devices divide a sequence into chunks of kDeltaRuleChunk rows. Let a be the running sums of
// g in a chunk, and a_L the last of them. Let u be d x, and S the state before the chunk:
//    K_ij = exp(a_i - a_j) c_i b_j for j <= i;   y = K u + exp(a) c S + D x
//    S' = exp(a_L) S + sum over j of exp(a_L - a_j) b_j u_j^T
// Backward: e is the gradient of y, dS' that of S', and W_ij = exp(a_i - a_j) e_i u_j:
//    du = K^T e + exp(a_L - a) b dS';   dx = d du + D e;   dd = du x;   dD = sum of e x
//    dc = W b + exp(a) S e;   db = W^T c + exp(a_L - a) dS' u
//    dS = exp(a_L) dS' + sum over i of exp(a_i) c_i e_i^T
//    da = e (y - D x) - du u, and a_L also has S' dS';   dg_t = sum of da over t and later rows
// All is computed in float32, but for bfloat16 inputs of common sizes on a GPU (ssd_bytes.h). Their
// products read bfloat16, also of the states. Sums are float32. There da is c dc - du u, because
// e (y - D x) = c dc for each head. Deterministic. T H (2 N P + chunk (N + P) / 2) multiply-adds
// forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>

#include "models/block/block.h"

namespace packtrain {

struct DeltaRuleTables;  // models/ops/delta_rule/device_table_cuda.h

// The inputs, or their gradients.
struct SsdInputs {
  at::Tensor x;
  at::Tensor b;
  at::Tensor c;
  at::Tensor steps;
  at::Tensor g;
};

struct SsdOptions {
  std::span<const std::int32_t> boundaries;
  // Where the CUDA kernels keep the chunks of a batch. Null: each call makes them.
  std::shared_ptr<DeltaRuleTables>* tables = nullptr;
};

// Throws Error(kInternal), which names shapes, when they do not fit. Returns y without gaps.
at::Tensor ssd_forward(const SsdInputs& inputs, const Parameter& skip, const SsdOptions& options);
// Writes the gradient of `skip`, and those of the inputs to `grads`: tensors of the inputs' shapes
// and dtypes. Rows of grads.x, .b and .c may have gaps.
void ssd_backward(const at::Tensor& grad_output, const SsdInputs& inputs, const Parameter& skip,
                  const SsdOptions& options, const SsdInputs& grads);

// The same on CUDA tensors, whose shapes fit. The backward returns the gradient of D, float32 [H].
// A CUDA graph cannot capture them. no_cuda_mixers.cpp has them in a build without CUDA.
at::Tensor ssd_forward_cuda(const SsdInputs& inputs, const at::Tensor& skip,
                            const SsdOptions& options);
at::Tensor ssd_backward_cuda(const at::Tensor& grad_output, const SsdInputs& inputs,
                             const at::Tensor& skip, const SsdOptions& options,
                             const SsdInputs& grads);

}  // namespace packtrain
