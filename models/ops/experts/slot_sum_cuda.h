#pragma once

#include <ATen/core/Tensor.h>

namespace packtrain {

// As slot_sum, on CUDA tensors.
at::Tensor slot_sum_cuda(const at::Tensor& values, const at::Tensor& places,
                         const at::Tensor& weights, const at::Tensor& addend);

}  // namespace packtrain
