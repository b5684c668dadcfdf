#include "models/ops/experts/sigmoid_router.h"

#include <ATen/ops/add.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <tuple>

namespace packtrain {
namespace {

constexpr double kSmallestSum = 1e-20;

// The columns of the `count` largest values of each row, largest first, of equal ones the lowest.
at::Tensor largest(const at::Tensor& values, std::int64_t count) {
  const auto order =
      std::get<1>(at::sort(values, /*stable=*/true, /*dim=*/-1, /*descending=*/true));
  return order.narrow(-1, 0, count);
}

// The scores with minus infinity in place of those in groups that are not chosen.
at::Tensor scores_in_groups(const at::Tensor& scores, const RoutingOptions& options) {
  const std::int64_t num_rows = scores.size(0);
  const std::int64_t per_group = scores.size(1) / options.num_groups;
  const at::Tensor grouped = scores.view({num_rows, options.num_groups, per_group});
  const at::Tensor best = std::get<0>(at::sort(grouped, /*dim=*/-1, /*descending=*/true));
  const at::Tensor of_groups = best.narrow(-1, 0, 2).sum(-1);
  at::Tensor is_left_out = at::ones(of_groups.sizes(), of_groups.options().dtype(at::kBool));
  is_left_out.scatter_(1, largest(of_groups, options.groups_per_row), /*value=*/0);
  return grouped.masked_fill(is_left_out.unsqueeze(-1), -std::numeric_limits<double>::infinity())
      .view({num_rows, scores.size(1)});
}

}  // namespace

Routing choose_by_sigmoid(const at::Tensor& logits, const Parameter* choice_bias,
                          const RoutingOptions& options) {
  Routing routing;
  routing.probabilities = at::sigmoid(logits);
  at::Tensor scores = routing.probabilities;
  if (choice_bias != nullptr) scores = at::add(scores, choice_bias->value.to(at::kFloat));
  if (options.groups_per_row < options.num_groups) scores = scores_in_groups(scores, options);
  const at::Tensor chosen = largest(scores, options.experts_per_row);
  routing.experts = chosen.to(at::kInt).contiguous();
  routing.weights = at::gather(routing.probabilities, 1, chosen);
  if (options.normalize) {
    routing.weights.div_(routing.weights.sum(1, /*keepdim=*/true).add_(kSmallestSum));
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
    const at::Tensor sum = scores.sum(1, /*keepdim=*/true).add_(kSmallestSum);
    const at::Tensor mean = at::mul(grad, scores).sum(1, /*keepdim=*/true).div_(sum);
    grad = at::sub(grad, mean).div_(sum);
  }
  grad.mul_(scores).mul_(at::sub(scores, 1).neg_());
  at::Tensor spread = at::zeros(routing.probabilities.sizes(), grad.options());
  return spread.scatter_(1, chosen, grad);  // experts of a row are distinct: one writer each
}

}  // namespace packtrain
