#include "models/ops/experts/routing.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "models/ops/cuda/current_stream.h"
#include "models/ops/experts/routing_launch.h"

namespace packtrain {
namespace {

RoutingShape shape_of(std::int64_t num_rows, std::int64_t num_experts,
                      const RoutingOptions& options) {
  return {num_rows, num_experts, options.experts_per_row, options.normalize};
}

}  // namespace

Routing choose_experts_cuda(const at::Tensor& logits, const RoutingOptions& options) {
  const RoutingShape shape = shape_of(logits.size(0), logits.size(1), options);
  Routing routing;
  routing.weights = at::empty({shape.num_rows, shape.experts_per_row}, logits.options());
  routing.experts = at::empty_like(routing.weights, logits.options().dtype(at::kInt));
  RoutingOutputs outputs;
  outputs.weights = routing.weights.data_ptr<float>();
  outputs.experts = routing.experts.data_ptr<std::int32_t>();
  if (options.reads_probabilities()) {
    routing.probabilities = at::empty(logits.sizes(), logits.options());
    outputs.probabilities = routing.probabilities.data_ptr<float>();
  }
  launch_routing(shape, logits.const_data_ptr<float>(), outputs, current_stream(logits));
  return routing;
}

at::Tensor routing_backward_cuda(const at::Tensor& grad_weights,
                                 const at::Tensor& grad_probabilities, const Routing& routing,
                                 std::int64_t num_experts, const RoutingOptions& options) {
  const at::Tensor of_weights = grad_weights.contiguous();
  at::Tensor of_probabilities;
  RoutingGradients gradients;
  gradients.weights = routing.weights.const_data_ptr<float>();
  gradients.experts = routing.experts.const_data_ptr<std::int32_t>();
  gradients.grad_weights = of_weights.const_data_ptr<float>();
  if (grad_probabilities.defined()) {
    of_probabilities = grad_probabilities.contiguous();
    gradients.grad_probabilities = of_probabilities.const_data_ptr<float>();
  }
  if (!options.normalize || grad_probabilities.defined()) {
    gradients.probabilities = routing.probabilities.const_data_ptr<float>();
  }
  const RoutingShape shape = shape_of(of_weights.size(0), num_experts, options);
  const at::Tensor grad_logits = at::empty({shape.num_rows, num_experts}, of_weights.options());
  launch_routing_backward(shape, gradients, grad_logits.data_ptr<float>(),
                          current_stream(of_weights));
  return grad_logits;
}

}  // namespace packtrain
