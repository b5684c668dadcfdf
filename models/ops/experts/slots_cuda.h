#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// As in slots.h, on CUDA tensors.
at::Tensor slot_sum_cuda(const at::Tensor& values, const at::Tensor& places,
                         const at::Tensor& weights, const at::Tensor& addend);
at::Tensor slot_spread_cuda(const at::Tensor& rows, const at::Tensor& places,
                            const at::Tensor& weights);
at::Tensor slot_dot_cuda(const at::Tensor& a, const at::Tensor& b, const at::Tensor& places,
                         const at::Tensor& divisors);

}  // namespace packtrain
