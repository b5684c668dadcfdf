#include "models/ops/delta_rule/delta_rule_chunk.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sub.h>

#include <limits>

namespace packtrain {
namespace {

at::Tensor transposed(const at::Tensor& x) {
  return x.transpose(1, 2);
}

// exp(a_i - a_j) where j <= i, else 0, [H, C, C].
at::Tensor ratios(const at::Tensor& sum) {
  const std::int64_t num_rows = sum.size(1);
  const at::Tensor is_later =
      at::ones({num_rows, num_rows}, sum.options().dtype(at::kBool)).triu(1);
  return at::sub(sum, transposed(sum))
      .masked_fill(is_later, -std::numeric_limits<double>::infinity())
      .exp_();
}

// Sum over the last dimension, which stays.
at::Tensor dot(const at::Tensor& a, const at::Tensor& b) {
  return at::mul(a, b).sum(-1, /*keepdim=*/true);
}

// x with (1 + lower) x = right, or with (1 + lower)^T for `transpose`.
at::Tensor solve(const at::Tensor& lower, const at::Tensor& right, bool transpose) {
  return at::linalg_solve_triangular(transpose ? transposed(lower) : lower, right,
                                     /*upper=*/transpose, /*left=*/true, /*unitriangular=*/true);
}

// Forward and backward of a chunk share these.
struct Values {
  at::Tensor ratio;     // exp(a_i - a_j)
  at::Tensor decay;     // exp(a)
  at::Tensor to_end;    // exp(a_last - a)
  at::Tensor lower;     // L
  at::Tensor expected;  // exp(a) k S: what the state has for the keys
  at::Tensor d;
  at::Tensor scores;  // exp(a_i - a_j) q_i k_j for j <= i
};

Values values_of(const DeltaRuleChunk& chunk, const at::Tensor& state) {
  Values values;
  values.ratio = ratios(chunk.sum);
  values.decay = at::exp(chunk.sum);
  values.to_end = at::exp(at::sub(chunk.sum.narrow(1, chunk.sum.size(1) - 1, 1), chunk.sum));
  values.lower =
      at::bmm(chunk.k, transposed(chunk.k)).mul_(values.ratio).mul_(chunk.beta).tril_(-1);
  values.expected = at::bmm(chunk.k, state).mul_(values.decay);
  values.d = solve(values.lower, at::sub(chunk.v, values.expected).mul_(chunk.beta), false);
  values.scores = at::bmm(chunk.q, transposed(chunk.k)).mul_(values.ratio);
  return values;
}

at::Tensor last_row(const at::Tensor& x) {
  return x.narrow(1, x.size(1) - 1, 1);
}

// Adds the gradients of a by a product of exp(a_i - a_j), where `grad` is the gradient times the
// product, [H, C, C].
void add_ratio_gradient(const at::Tensor& grad, const at::Tensor& grad_sum) {
  grad_sum.add_(grad.sum(2, /*keepdim=*/true)).sub_(transposed(grad.sum(1, /*keepdim=*/true)));
}

}  // namespace

DeltaRuleStep delta_rule_step(const DeltaRuleChunk& chunk, const at::Tensor& state) {
  const Values values = values_of(chunk, state);
  DeltaRuleStep step;
  step.output = at::bmm(values.scores, values.d).add_(at::bmm(chunk.q, state).mul_(values.decay));
  step.state = at::bmm(transposed(at::mul(chunk.k, values.to_end)), values.d)
                   .add_(at::mul(state, last_row(values.decay)));
  return step;
}

DeltaRuleChunkGradients delta_rule_step_backward(const DeltaRuleChunk& chunk,
                                                 const at::Tensor& state,
                                                 const DeltaRuleStep& grad) {
  const Values values = values_of(chunk, state);
  const at::Tensor ended_k = at::mul(chunk.k, values.to_end);
  // The gradients are of d, and of the right side of its equation.
  const at::Tensor grad_d =
      at::bmm(transposed(values.scores), grad.output).add_(at::bmm(ended_k, grad.state));
  const at::Tensor grad_right = solve(values.lower, grad_d, true);
  const at::Tensor grad_v = at::mul(grad_right, chunk.beta);
  // L is without its beta here. Both gradients include the factor exp(a_i - a_j).
  const at::Tensor grad_lower =
      at::bmm(grad_right, transposed(values.d)).neg_().mul_(values.ratio).tril_(-1);
  const at::Tensor grad_scores = at::bmm(grad.output, transposed(values.d)).mul_(values.ratio);
  const at::Tensor grad_products = at::mul(grad_lower, chunk.beta);
  const at::Tensor decayed_output = at::mul(grad.output, values.decay);
  const at::Tensor decayed_v = at::mul(grad_v, values.decay);
  const at::Tensor grad_ended_k = at::bmm(values.d, transposed(grad.state));

  DeltaRuleChunkGradients out;
  out.inputs.v = grad_v;
  out.inputs.q = at::bmm(grad_scores, chunk.k).add_(at::bmm(decayed_output, transposed(state)));
  out.inputs.k = at::bmm(transposed(grad_scores), chunk.q)
                     .add_(at::bmm(grad_products, chunk.k))
                     .add_(at::bmm(transposed(grad_products), chunk.k))
                     .sub_(at::bmm(decayed_v, transposed(state)))
                     .add_(at::mul(grad_ended_k, values.to_end));
  const at::Tensor products = at::bmm(chunk.k, transposed(chunk.k));
  out.inputs.beta =
      dot(grad_right, at::sub(chunk.v, values.expected)).add_(dot(grad_lower, products));
  out.state = at::mul(grad.state, last_row(values.decay))
                  .add_(at::bmm(transposed(chunk.q), decayed_output))
                  .sub_(at::bmm(transposed(chunk.k), decayed_v));

  const at::Tensor grad_sum = dot(decayed_output, at::bmm(chunk.q, state));
  grad_sum.sub_(dot(grad_v, values.expected));
  add_ratio_gradient(at::mul(grad_scores, at::bmm(chunk.q, transposed(chunk.k))), grad_sum);
  add_ratio_gradient(at::mul(grad_products, products), grad_sum);
  const at::Tensor of_end = dot(grad_ended_k, ended_k);
  const at::Tensor of_state =
      at::mul(grad.state, state).sum(at::IntArrayRef{1, 2}, /*keepdim=*/true);
  grad_sum.sub_(of_end);
  last_row(grad_sum)
      .add_(of_end.sum(1, /*keepdim=*/true))
      .add_(of_state.mul_(last_row(values.decay)));
  out.inputs.sum = grad_sum;
  return out;
}

}  // namespace packtrain
