#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/rotary/rotary.h"

namespace packtrain {

// The functions of rotary.h on CUDA tensors.
void rotary_forward_cuda_(const at::Tensor& qkv, const at::Tensor& position_ids,
                          const at::Tensor& frequencies, const RotaryOptions& options);
at::Tensor rotary_backward_cuda(const at::Tensor& grad_query, const at::Tensor& grad_key,
                                const at::Tensor& grad_value, const at::Tensor& position_ids,
                                const at::Tensor& frequencies, const RotaryOptions& options);

}  // namespace packtrain
