#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/experts/token_permutation.h"

namespace packtrain {

// The functions of token_permutation.h on CUDA tensors.
TokenPermutation sort_tokens_by_expert_cuda(const at::Tensor& experts, std::int64_t num_experts);
void count_tokens_per_expert_cuda(const at::Tensor& experts, const at::Tensor& row_counts,
                                  const at::Tensor& counts);

}  // namespace packtrain
