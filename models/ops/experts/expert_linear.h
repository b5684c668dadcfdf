// Linear maps of a mixture of experts, each expert with weights of its own, of rows sorted by
// expert (expert_order.h). With a an assignment in the sorted order, row t, expert e, weight w:
//   dispatch   y[a] = W[e] x[t] + b[e]                           x [T, K], y [A, N]
//   combine    y[t] = r[t] + sum over t's a of w (W[e] h[a] + b[e])   h [A, K], r and y [T, N]
// W [E, N, K], b [E, N]; rows float32 or bfloat16, w float32 [T, k]. Copies of rows for each
// assignment are made on the way, forward and backward, and never kept. Deterministic; the
// gradients of W and b have the rows' dtype or float32. 2 A K N operations forward, 4 backward.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/block.h"
#include "models/ops/experts/expert_order.h"

namespace packtrain {

struct ExpertProjection {
  const Parameter* weight = nullptr;
  const Parameter* bias = nullptr;  // or null
};

at::Tensor dispatch_forward(const at::Tensor& x, const ExpertOrder& order,
                            const ExpertProjection& projection);
// d x [T, K], plus `sum` (another gradient of x), which may be undefined.
at::Tensor dispatch_backward_input(const at::Tensor& grad_output, const ExpertOrder& order,
                                   const ExpertProjection& projection, const at::Tensor& sum);
// Writes d W and d b; zeros for experts without rows. What is frozen costs nothing.
void dispatch_backward_weight(const at::Tensor& grad_output, const at::Tensor& x,
                              const ExpertOrder& order, const ExpertProjection& projection);

// `residual` may be undefined.
at::Tensor combine_forward(const at::Tensor& h, const at::Tensor& weights, const ExpertOrder& order,
                           const ExpertProjection& projection, const at::Tensor& residual);

// The way back, in two steps: the second also reads h, which may have to be made again first.
struct CombineGradients {
  at::Tensor output;  // [A, N] w times y's, sorted
  at::Tensor h;       // [A, K]
};
CombineGradients combine_backward_input(const at::Tensor& grad_output, const at::Tensor& weights,
                                        const ExpertOrder& order,
                                        const ExpertProjection& projection);
// Writes d W and d b; returns d w, float32 [T, k]. Of the weighted gradients, no row of which is
// then scaled again: d w = (d h . h + w d y . b) / w, and 0 where w is 0, which a softmax
// multiplies it by.
at::Tensor combine_backward_weight(const CombineGradients& gradients, const at::Tensor& h,
                                   const at::Tensor& weights, const ExpertOrder& order,
                                   const ExpertProjection& projection);

}  // namespace packtrain
