// Attention through libtorch's variable-length FlashAttention-2; see attention.h.
#pragma once

#include "models/ops/attention/attention.h"

namespace packtrain {

AttentionOutput flash_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              DeviceBatch& batch);
HeadGradients flash_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, DeviceBatch& batch);

}  // namespace packtrain
