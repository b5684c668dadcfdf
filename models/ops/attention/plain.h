// Attention by its formula, one segment after another, for soft caps and windows that no fused
// kernel supports. Works on some rows of scores at a time, in float32, and only on keys that these
// rows attend to. Memory is bounded, and a window saves work. On CUDA, products of bfloat16 values
// run in TF32.
//    s = scale q k^T;  c tanh(s / c) with a soft cap;  p = softmax over these keys;  o = p v
//    ds = p (do v^T - sum(do o)) (1 - (s_capped / c)^2)
#pragma once

#include "models/ops/attention/attention.h"

namespace packtrain {

// saved: {float32 [T, num_heads], logsumexp of the softmax}.
AttentionOutput plain_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              const DeviceBatch& batch);
HeadGradients plain_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, const DeviceBatch& batch);
// Upper limit of the memory in addition to the returned tensors, for sequences of up to
// `max_length`.
std::int64_t plain_workspace_bytes(const AttentionShape& shape, std::int64_t max_length,
                                   bool on_gpu);

}  // namespace packtrain
