// QK-norm: RMSNorm of each query and key head, then rotary positions, in one kernel (Qwen 3, Gemma
// 3):
//    y = rotary(RMSNorm(x)) for each head of D elements
// The weight w_q [D] is for all query heads and w_k [D] for all key heads. See rms_norm.h and
// rotary.h for the formulas. Tensors are float32 or bfloat16. Computes in float32 and rounds once.
// The input qkv [T, heads + 2 kv, D] is not changed, because backward needs it. Deterministic.
//
// Elements that must move: forward 2 T D (heads + 2 kv), backward 3 T D (heads + kv) + 2 T D kv.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/block/block.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

struct QkNorm {
  const Parameter& query;  // [D]
  const Parameter& key;    // [D]
  std::int64_t num_query_heads;
  RmsNormOptions options;
};

struct QkNormOutput {
  at::Tensor qkv;          // [T, heads + 2 kv, D]; values are copied
  at::Tensor inverse_rms;  // float32 [T, heads + kv], for backward
};

// position_ids, frequencies and rotary are as for rotary_forward_, with num_rotated_heads = heads +
// kv.
QkNormOutput qk_norm_forward(const at::Tensor& qkv, const QkNorm& norm,
                             const at::Tensor& position_ids, const at::Tensor& frequencies,
                             const RotaryOptions& rotary);
// Writes the gradients of both weights. Returns d qkv [T, heads + 2 kv, D]. The gradients of
// queries, keys and values [T, their heads, D] may have any strides, but 1 within a head.
at::Tensor qk_norm_backward(const at::Tensor& grad_query, const at::Tensor& grad_key,
                            const at::Tensor& grad_value, const at::Tensor& qkv,
                            const at::Tensor& inverse_rms, const QkNorm& norm,
                            const at::Tensor& position_ids, const at::Tensor& frequencies,
                            const RotaryOptions& rotary);

// On CUDA tensors. The functions above call these; no_cuda.cpp has them in a build without CUDA.
QkNormOutput qk_norm_forward_cuda(const at::Tensor& qkv, const QkNorm& norm,
                                  const at::Tensor& position_ids, const at::Tensor& frequencies,
                                  const RotaryOptions& rotary);
at::Tensor qk_norm_backward_cuda(const at::Tensor& grad_query, const at::Tensor& grad_key,
                                 const at::Tensor& grad_value, const at::Tensor& qkv,
                                 const at::Tensor& inverse_rms, const QkNorm& norm,
                                 const at::Tensor& position_ids, const at::Tensor& frequencies,
                                 const RotaryOptions& rotary);

}  // namespace packtrain
