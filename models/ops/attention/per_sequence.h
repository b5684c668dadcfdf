// Causal attention one sequence after another through libtorch's kernels, without windows and
// caps; see attention.h. saved: {[1, num_heads, at least L] a sequence, logarithms of the softmax's
// sums; undefined where it has no token}.
#pragma once

#include "models/ops/attention/attention.h"

namespace packtrain {

AttentionOutput per_sequence_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                     const DeviceBatch& batch);
HeadGradients per_sequence_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                    const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                    const AttentionShape& shape, const DeviceBatch& batch);

}  // namespace packtrain
