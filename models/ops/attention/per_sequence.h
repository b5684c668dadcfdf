// Causal attention without windows and caps, one sequence after another, through libtorch's kernels
// (attention.h). Prefixes are served on the CPU. The saved tensors are the logsumexps, [1,
// num_heads, at least L] for each sequence. That of a sequence without tokens is undefined.
#pragma once

#include "models/ops/attention/attention.h"

namespace packtrain {

AttentionOutput per_sequence_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                     DeviceBatch& batch);
HeadGradients per_sequence_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                    const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                    const AttentionShape& shape, DeviceBatch& batch);

}  // namespace packtrain
