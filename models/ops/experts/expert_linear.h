// The two linear maps of a mixture of experts and the activation between them. Each expert has its
// own weights, and rows are sorted by expert (token_permutation.h). For an assignment a in the
// sorted order, with row t, expert e and weight w:
//    dispatch   u[a] = W[e] x[t] + b[e],  h[a] = activation of u[a]
//    combine    y[t] = r[t] + sum over t's a of w (W[e] h[a] + b[e])
// Dispatch has x [T, K], u [A, N], h [A, I]. Combine has W [E, N, I], r and y [T, N]. W is [E, N,
// K], b [E, N], rows float32 or bfloat16, w float32 [T, k]. Forward and backward copy a row for
// each of its assignments and free the copies. With input weights w (Llama 4's experts) it is
//    dispatch   u[a] = W[e] (w x[t]);   combine    y[t] = r[t] + sum over t's a of W[e] h[a]
//  h is not saved either; backward recomputes it.
// Deterministic. The gradients of W and b have the rows' dtype or are float32. 2 A K N operations
// forward, 4 backward. W may have a low-rank update (expert_lora.h), whose products are then
// launches of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block/block.h"
#include "models/ops/activation/activation_kind.h"
#include "models/ops/experts/expert_lora.h"
#include "models/ops/experts/token_permutation.h"

namespace packtrain {

struct ExpertProjection {
  const Parameter* weight = nullptr;
  const Parameter* bias = nullptr;  // may be null
  GemmTiming timing = {};
  ExpertLora lora = {};  // of the weight
  // The products of rows have 8-bit operands (fp8_expert_product.h), and no low-rank update. That
  // of the weight's gradient has the rows' own. Then amaxes are found, and read where defined
  // (Fp8Cast::amax).
  bool in_fp8 = false;

  // float32 [T, k]: of both projections, without biases. Undefined: weights are of outputs.
  at::Tensor input_weights = {};

  bool has_lora() const { return lora.a != nullptr; }
};

struct ExpertsHidden {
  at::Tensor u;
  at::Tensor h;
  at::Tensor h_amax;
};
ExpertsHidden dispatch_forward(const at::Tensor& x, const TokenPermutation& order,
                               const ExpertProjection& projection, const Activation& activation,
                               const at::Tensor& x_amax = {});
// Returns the gradient of the low rank [A, R], which the next two functions take. Undefined without
// a low-rank update.
at::Tensor dispatch_backward_low_rank(const at::Tensor& grad_u, const TokenPermutation& order,
                                      const ExpertProjection& projection);
// Returns dx [T, K] plus `sum`, another gradient of x, which may be undefined.
at::Tensor dispatch_backward_input(const at::Tensor& grad_u, const at::Tensor& grad_low_rank,
                                   const TokenPermutation& order,
                                   const ExpertProjection& projection, const at::Tensor& sum,
                                   const at::Tensor& grad_u_amax = {});
// Writes dW, db, dA and dB, with zeros for experts without rows. Frozen parameters cost nothing.
void dispatch_backward_weight(const at::Tensor& grad_u, const at::Tensor& grad_low_rank,
                              const at::Tensor& x, const TokenPermutation& order,
                              const ExpertProjection& projection);

// `residual` may be undefined.
at::Tensor combine_forward(const at::Tensor& h, const at::Tensor& weights,
                           const TokenPermutation& order, const ExpertProjection& projection,
                           const at::Tensor& residual, const at::Tensor& h_amax = {});

struct CombineGradients {
  at::Tensor u;        // gradient of dispatch's u
  at::Tensor u_amax;   // of that gradient
  at::Tensor weights;  // float32 [T, k]
};
// Also writes dW, db, dA and dB. Gradients are weighted first, so that no row is scaled again
// afterwards: d w = (dh . h + w dy . b) / w. It is 0 where w is 0; the backward of a softmax
// multiplies it by w = 0 anyway. With input weights, `weights` is undefined and d w = (du . u) / w.
CombineGradients combine_backward(const at::Tensor& grad_output, const at::Tensor& u,
                                  const at::Tensor& weights, const TokenPermutation& order,
                                  const ExpertProjection& projection, const Activation& activation);

}  // namespace packtrain
