// Attention one sequence after another, boundaries from the host; see attention.h.
#pragma once

#include "models/ops/attention/attention.h"

namespace packtrain {

AttentionOutput per_sequence_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                     const DeviceBatch& batch);
HeadGradients per_sequence_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                    const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                    const AttentionShape& shape, const DeviceBatch& batch);

}  // namespace packtrain
