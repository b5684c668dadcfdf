#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/experts/expert_order.h"

namespace packtrain {

// As in expert_order.h, on CUDA tensors.
ExpertOrder order_by_expert_cuda(const at::Tensor& experts, std::int64_t num_experts);
void count_by_expert_cuda(const at::Tensor& experts, const at::Tensor& row_counts,
                          const at::Tensor& counts);

}  // namespace packtrain
