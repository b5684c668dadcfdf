#pragma once

#include <ATen/core/Tensor.h>

#include "models/ops/qk_norm/qk_norm.h"

namespace packtrain {

// The functions of qk_norm.h on CUDA tensors.
QkNormOutput qk_norm_forward_cuda(const at::Tensor& qkv, const QkNorm& norm,
                                  const at::Tensor& position_ids, const at::Tensor& frequencies,
                                  const RotaryOptions& rotary);
at::Tensor qk_norm_backward_cuda(const at::Tensor& grad_query, const at::Tensor& grad_key,
                                 const at::Tensor& grad_value, const at::Tensor& qkv,
                                 const at::Tensor& inverse_rms, const QkNorm& norm,
                                 const at::Tensor& position_ids, const at::Tensor& frequencies,
                                 const RotaryOptions& rotary);

}  // namespace packtrain
