// The two linear maps of a mixture of experts, each expert with weights of its own, of rows sorted
// by expert (token_permutation.h), and the activation between them. With a an assignment in the
// sorted order, row t, expert e, weight w:
//   dispatch   u[a] = W[e] x[t] + b[e],  h[a] = activation of u[a]     x [T, K], u [A, N], h [A, I]
//   combine    y[t] = r[t] + sum over t's a of w (W[e] h[a] + b[e])    W [E, N, I], r and y [T, N]
// W [E, N, K], b [E, N]; rows float32 or bfloat16, w float32 [T, k]. Copies of rows for each
// assignment are made on the way, forward and backward, and never kept; nor is h, which the way
// back makes again. Deterministic; the gradients of W and b have the rows' dtype or float32. 2 A K
// N operations forward, 4 backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"
#include "models/ops/activation/activation_kind.h"
#include "models/ops/experts/token_permutation.h"

namespace packtrain {

struct ExpertProjection {
  const Parameter* weight = nullptr;
  const Parameter* bias = nullptr;  // or null
};

struct ExpertsHidden {
  at::Tensor u;
  at::Tensor h;
};
ExpertsHidden dispatch_forward(const at::Tensor& x, const TokenPermutation& order,
                               const ExpertProjection& projection, const Activation& activation);
// d x [T, K], plus `sum` (another gradient of x), which may be undefined.
at::Tensor dispatch_backward_input(const at::Tensor& grad_u, const TokenPermutation& order,
                                   const ExpertProjection& projection, const at::Tensor& sum);
// Writes d W and d b; zeros for experts without rows. What is frozen costs nothing.
void dispatch_backward_weight(const at::Tensor& grad_u, const at::Tensor& x,
                              const TokenPermutation& order, const ExpertProjection& projection);

// `residual` may be undefined.
at::Tensor combine_forward(const at::Tensor& h, const at::Tensor& weights,
                           const TokenPermutation& order, const ExpertProjection& projection,
                           const at::Tensor& residual);

struct CombineGradients {
  at::Tensor u;        // of dispatch
  at::Tensor weights;  // float32 [T, k]
};
// Writes d W and d b too. From the weighted gradients, no row of which is then scaled again:
// d w = (d h . h + w d y . b) / w, and 0 where w is 0, which a softmax multiplies it by.
CombineGradients combine_backward(const at::Tensor& grad_output, const at::Tensor& u,
                                  const at::Tensor& weights, const TokenPermutation& order,
                                  const ExpertProjection& projection, const Activation& activation);

}  // namespace packtrain
