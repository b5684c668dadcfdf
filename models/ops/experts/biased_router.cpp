#include "models/ops/experts/biased_router.h"

#include <ATen/ops/add.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include "models/ops/experts/expert_groups.h"

namespace packtrain {

Routing choose_by_biased_softmax(const at::Tensor& logits, const Parameter& choice_bias,
                                 const RoutingOptions& options) {
  Routing routing;
  routing.probabilities = at::softmax(logits, 1);
  const at::Tensor scores = at::add(routing.probabilities, choice_bias.value.to(at::kFloat));
  const at::Tensor chosen = largest_columns(scores, options.experts_per_row);
  routing.experts = chosen.to(at::kInt).contiguous();
  routing.weights = at::gather(routing.probabilities, 1, chosen);
  if (options.normalize) {
    const at::Tensor sum = routing.weights.sum(1, /*keepdim=*/true);
    routing.weights.div_(sum.clamp_min(options.sum_epsilon));
  }
  routing.weights.mul_(options.weight_multiplier);
  return routing;
}

at::Tensor biased_routing_backward(const at::Tensor& grad_weights,
                                   const at::Tensor& grad_probabilities, const Routing& routing,
                                   const RoutingOptions& options) {
  const at::Tensor& p = routing.probabilities;
  const at::Tensor chosen = routing.experts.to(at::kLong);
  at::Tensor grad = at::mul(grad_weights, options.weight_multiplier);
  if (options.normalize) {
    const at::Tensor of_chosen = at::gather(p, 1, chosen);
    const at::Tensor sum = of_chosen.sum(1, /*keepdim=*/true);
    const at::Tensor divisor = sum.clamp_min(options.sum_epsilon);
    const at::Tensor mean = at::mul(grad, of_chosen).sum(1, /*keepdim=*/true).div_(divisor);
    grad = at::sub(grad, mean.mul_(at::gt(sum, options.sum_epsilon))).div_(divisor);
  }
  at::Tensor spread = at::zeros(p.sizes(), grad.options());
  spread.scatter_(1, chosen, grad);  // experts of a row are distinct: one writer each
  if (grad_probabilities.defined()) spread.add_(grad_probabilities);
  const at::Tensor mean = at::mul(spread, p).sum(1, /*keepdim=*/true);
  return at::sub(spread, mean).mul_(p);
}

}  // namespace packtrain
