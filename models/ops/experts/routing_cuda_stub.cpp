#include "models/ops/cuda/not_built.h"
#include "models/ops/experts/routing_cuda.h"

namespace packtrain {

Routing choose_experts_cuda(const at::Tensor& /*logits*/, const RoutingOptions& /*options*/) {
  throw_cuda_not_built("routing");
}

at::Tensor routing_backward_cuda(const at::Tensor& /*grad_weights*/,
                                 const at::Tensor& /*grad_probabilities*/,
                                 const Routing& /*routing*/, std::int64_t /*num_experts*/,
                                 const RoutingOptions& /*options*/) {
  throw_cuda_not_built("routing_backward");
}

}  // namespace packtrain
