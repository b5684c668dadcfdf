#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// The functions of permute.h on CUDA tensors.
at::Tensor unpermute_sum_cuda(const at::Tensor& values, const at::Tensor& permuted_rows,
                              const at::Tensor& weights, const at::Tensor& addend);
at::Tensor permute_rows_cuda(const at::Tensor& rows, const at::Tensor& permuted_rows,
                             const at::Tensor& weights);
at::Tensor grad_routing_weight_cuda(const at::Tensor& a, const at::Tensor& b,
                                    const at::Tensor& permuted_rows, const at::Tensor& divisors);

}  // namespace packtrain
