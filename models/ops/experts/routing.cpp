#include "models/ops/experts/routing.h"

#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros.h>

#include <tuple>

#include "models/ops/experts/biased_router.h"
#include "models/ops/experts/expert_groups.h"
#include "models/ops/experts/sigmoid_router.h"
#include "models/ops/experts/sparse_mixer.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

// Backward of s = softmax(z) along the last dimension.
at::Tensor softmax_backward(const at::Tensor& grad, const at::Tensor& s) {
  const at::Tensor mean = at::mul(grad, s).sum(/*dim=*/1, /*keepdim=*/true);
  return at::sub(grad, mean).mul_(s);
}

at::Tensor router_logits(const at::Tensor& x, const RouterWeights& router, double multiplier,
                         const GemmTiming& timing) {
  const at::Tensor& weight = router.weight.value;
  const at::Tensor logits = at::empty({x.size(0), weight.size(0)}, x.options().dtype(at::kFloat));
  gemm_out(logits, x, weight.t(),
           {.bias = router.bias != nullptr ? router.bias->value.to(at::kFloat) : at::Tensor()},
           timing);
  if (multiplier != 1.0) logits.mul_(multiplier);
  return logits;
}

// The softmax router, with weights that have no factor.
Routing choose_without_factor(const at::Tensor& logits, const RoutingOptions& options) {
  const bool in_groups = options.groups_per_row < options.num_groups;
  if (logits.is_cuda() && !in_groups) return choose_experts_cuda(logits, options);
  // libtorch's topk defines no order among equal values; a stable sort does.
  const auto [sorted, order] =
      at::sort(in_groups ? scores_in_groups(logits, options, /*num_best=*/1) : logits,
               /*stable=*/true, /*dim=*/1, /*descending=*/true);
  const at::Tensor chosen = order.narrow(1, 0, options.experts_per_row);
  Routing routing;
  routing.experts = chosen.to(at::kInt).contiguous();
  if (options.reads_probabilities()) routing.probabilities = at::softmax(logits, 1);
  routing.weights = options.normalize ? at::softmax(sorted.narrow(1, 0, options.experts_per_row), 1)
                                      : at::gather(routing.probabilities, 1, chosen);
  return routing;
}

Routing choose_experts(const at::Tensor& logits, const RoutingOptions& options) {
  Routing routing = choose_without_factor(logits, options);
  if (options.weight_multiplier != 1.0) routing.weights.mul_(options.weight_multiplier);
  return routing;
}

// The weights have no factor.
at::Tensor softmax_routing_backward(const at::Tensor& grad_weights,
                                    const at::Tensor& grad_probabilities, const Routing& routing,
                                    std::int64_t num_experts, const RoutingOptions& options) {
  if (grad_weights.is_cuda()) {
    return routing_backward_cuda(grad_weights, grad_probabilities, routing, num_experts, options);
  }
  const at::Tensor chosen = routing.experts.to(at::kLong);
  const std::int64_t num_rows = chosen.size(0);
  at::Tensor spread = at::zeros({num_rows, num_experts}, grad_weights.options());
  const at::Tensor of_chosen =
      options.normalize ? softmax_backward(grad_weights, routing.weights) : grad_weights;
  spread.scatter_(1, chosen, of_chosen);  // experts of a row are distinct: one writer each
  if (options.normalize) {
    if (!grad_probabilities.defined()) return spread;
    return spread.add_(softmax_backward(grad_probabilities, routing.probabilities));
  }
  if (grad_probabilities.defined()) spread.add_(grad_probabilities);
  return softmax_backward(spread, routing.probabilities);
}

// Returns dz [T, E].
at::Tensor gradient_of_logits(const at::Tensor& grad_weights, const at::Tensor& grad_probabilities,
                              const Routing& routing, std::int64_t num_experts,
                              const RoutingOptions& options) {
  switch (options.kind) {
    case RouterKind::kSigmoid:
      return sigmoid_routing_backward(grad_weights, routing, options);
    case RouterKind::kSparseMixer: {
      const at::Tensor grad = sparse_mixer_backward(grad_weights, routing, options);
      if (!grad_probabilities.defined()) return grad;
      return grad.add_(softmax_backward(grad_probabilities, routing.probabilities));
    }
    case RouterKind::kSoftmax:
      break;
  }
  if (options.choice_bias) {
    return biased_routing_backward(grad_weights, grad_probabilities, routing, options);
  }
  if (options.weight_multiplier == 1.0) {
    return softmax_routing_backward(grad_weights, grad_probabilities, routing, num_experts,
                                    options);
  }
  Routing without = routing;
  without.weights = at::div(routing.weights, options.weight_multiplier);
  return softmax_routing_backward(at::mul(grad_weights, options.weight_multiplier),
                                  grad_probabilities, without, num_experts, options);
}

}  // namespace

Routing route(const at::Tensor& x, const RouterWeights& router, const RoutingOptions& options,
              const GemmTiming& timing) {
  const at::Tensor logits = router_logits(x, router, options.logit_multiplier, timing);
  switch (options.kind) {
    case RouterKind::kSigmoid:
      return choose_by_sigmoid(logits, router.choice_bias, options);
    case RouterKind::kSparseMixer:
      return choose_by_sparse_mixer(logits, options);
    case RouterKind::kSoftmax:
      break;
  }
  if (options.choice_bias) {
    return choose_by_biased_softmax(logits, *router.choice_bias, options);
  }
  return choose_experts(logits, options);
}

at::Tensor routing_backward(const at::Tensor& grad_weights, const at::Tensor& grad_probabilities,
                            const Routing& routing, std::int64_t num_experts,
                            const RoutingOptions& options) {
  at::Tensor grad =
      gradient_of_logits(grad_weights, grad_probabilities, routing, num_experts, options);
  return options.logit_multiplier == 1.0 ? grad : grad.mul_(options.logit_multiplier);
}

}  // namespace packtrain
