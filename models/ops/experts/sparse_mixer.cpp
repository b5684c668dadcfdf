#include "models/ops/experts/sparse_mixer.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/max.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sub.h>

#include <limits>
#include <tuple>

namespace packtrain {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// p of one choice, [T, E]. `left` are the logits, with minus infinity at experts chosen before.
at::Tensor competing(const at::Tensor& logits, const at::Tensor& left, double epsilon) {
  const at::Tensor largest = std::get<0>(at::max(left, /*dim=*/1, /*keepdim=*/true));
  const at::Tensor distance = at::sub(largest, logits).div_(at::maximum(at::abs(logits), largest));
  return at::softmax(left.masked_fill(at::gt(distance, 2 * epsilon), kMinusInfinity), 1);
}

at::Tensor without(const at::Tensor& logits, const at::Tensor& chosen) {
  return logits.scatter(1, chosen, kMinusInfinity);
}

}  // namespace

Routing choose_by_sparse_mixer(const at::Tensor& logits, const RoutingOptions& options) {
  const at::Tensor order =
      std::get<1>(at::sort(logits, /*stable=*/true, /*dim=*/1, /*descending=*/true));
  const at::Tensor first = order.narrow(1, 0, 1);
  const at::Tensor second = order.narrow(1, 1, 1);
  Routing routing;
  routing.logits = logits;
  routing.experts = order.narrow(1, 0, 2).to(at::kInt).contiguous();
  routing.weights = at::cat(
      {at::gather(competing(logits, logits, options.mixer_epsilon), 1, first),
       at::gather(competing(logits, without(logits, first), options.mixer_epsilon), 1, second)},
      1);
  if (options.keep_probabilities) routing.probabilities = at::softmax(logits, 1);
  return routing;
}

at::Tensor sparse_mixer_backward(const at::Tensor& grad_weights, const Routing& routing,
                                 const RoutingOptions& options) {
  const at::Tensor& logits = routing.logits;
  const at::Tensor chosen = routing.experts.to(at::kLong);
  const at::Tensor scaled = at::mul(grad_weights, routing.weights);
  const at::Tensor left = without(logits, chosen.narrow(1, 0, 1));
  at::Tensor grad =
      at::mul(competing(logits, logits, options.mixer_epsilon), scaled.narrow(1, 0, 1)).neg_();
  grad.sub_(at::mul(competing(logits, left, options.mixer_epsilon), scaled.narrow(1, 1, 1)));
  const at::Tensor of_chosen = at::gather(grad, 1, chosen);  // distinct: one writer each
  return grad.scatter_(1, chosen, of_chosen.add_(scaled));
}

}  // namespace packtrain
