#include "models/ops/experts/sigmoid_router.h"

#include <ATen/ops/add.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include "models/ops/experts/expert_groups.h"

namespace packtrain {
namespace {

constexpr std::int64_t kBestOfGroup = 2;  // the scores that a group's score adds

}  // namespace

Routing choose_by_sigmoid(const at::Tensor& logits, const Parameter* choice_bias,
                          const RoutingOptions& options) {
  Routing routing;
  routing.probabilities = at::sigmoid(logits);
  const bool in_groups = options.groups_per_row < options.num_groups;
  // Large logits have equal sigmoids.
  at::Tensor scores = choice_bias == nullptr && !in_groups ? logits : routing.probabilities;
  if (choice_bias != nullptr) scores = at::add(scores, choice_bias->value.to(at::kFloat));
  if (in_groups) {
    scores = scores_in_groups(scores, options, kBestOfGroup);
  }
  const at::Tensor chosen = largest_columns(scores, options.experts_per_row);
  routing.experts = chosen.to(at::kInt).contiguous();
  routing.weights = at::gather(routing.probabilities, 1, chosen);
  if (options.normalize) {
    routing.weights.div_(routing.weights.sum(1, /*keepdim=*/true).add_(options.sum_epsilon));
  }
  routing.weights.mul_(options.weight_multiplier);
  return routing;
}

at::Tensor sigmoid_routing_backward(const at::Tensor& grad_weights, const Routing& routing,
                                    const RoutingOptions& options) {
  const at::Tensor chosen = routing.experts.to(at::kLong);
  const at::Tensor scores = at::gather(routing.probabilities, 1, chosen);
  at::Tensor grad = at::mul(grad_weights, options.weight_multiplier);
  if (options.normalize) {
    const at::Tensor sum = scores.sum(1, /*keepdim=*/true).add_(options.sum_epsilon);
    const at::Tensor mean = at::mul(grad, scores).sum(1, /*keepdim=*/true).div_(sum);
    grad = at::sub(grad, mean).div_(sum);
  }
  grad.mul_(scores).mul_(at::sub(scores, 1).neg_());
  at::Tensor spread = at::zeros(routing.probabilities.sizes(), grad.options());
  return spread.scatter_(1, chosen, grad);  // experts of a row are distinct: one writer each
}

}  // namespace packtrain
