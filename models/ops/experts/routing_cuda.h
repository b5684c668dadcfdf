#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/experts/routing.h"

namespace packtrain {

// The functions of routing.h on CUDA tensors. logits: float32 [T, E].
Routing choose_experts_cuda(const at::Tensor& logits, const RoutingOptions& options);
at::Tensor routing_backward_cuda(const at::Tensor& grad_weights,
                                 const at::Tensor& grad_probabilities, const Routing& routing,
                                 std::int64_t num_experts, const RoutingOptions& options);

}  // namespace packtrain
