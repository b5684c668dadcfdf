// Causal attention inside each sequence of a packed batch, with grouped queries:
//   for each sequence and query head h:  o = softmax(causal(scale q k^T)) v,
//   k and v of head h / (num_heads / num_kv_heads); with a window W, query i sees keys i-W+1..i.
// qkv [T, num_heads + 2 num_kv_heads, D] (q, k, v heads in this order), o [T, num_heads D];
// float32 or bfloat16, softmax in float32. Boundaries come from cu_seqlens: sequences (the dummy of
// the padding too) never see each other. Operations: 2 h D sum(L^2) forward, 5/2 of it backward.
//   CPU: sequence by sequence, over the cores; deterministic.
//   CUDA bfloat16: one variable-length FlashAttention-2 call (Dao, arXiv 2307.08691); D a multiple
//     of 8 up to 256. Its backward adds d q with atomics: not deterministic unless the library is
//     told so (at::globalContext().setDeterministicAlgorithms).
//   CUDA float32: sequence by sequence with the memory-efficient kernel; for comparison, not speed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/batch.h"

namespace packtrain {

struct AttentionShape {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  double scale = 0;         // of q k^T; 0: 1 / sqrt(head_dim)
  std::int64_t window = 0;  // keys a query sees, its own included; 0: all before it
};

struct AttentionOutput {
  at::Tensor y;                   // [T, num_heads * D]
  std::vector<at::Tensor> saved;  // for backward, beside qkv and y
};

// Gradients of the query, key and value heads, each of its own: what comes next (rotary's backward)
// puts them into one tensor.
struct HeadGradients {
  at::Tensor query;  // [T, num_heads, D]
  at::Tensor key;    // [T, num_kv_heads, D]
  at::Tensor value;  // [T, num_kv_heads, D]
};

// Throws Error(kConfig) for a head_dim the device's kernel does not have.
AttentionOutput attention_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                  const DeviceBatch& batch);
// Every element is written.
HeadGradients attention_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                 const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                 const AttentionShape& shape, const DeviceBatch& batch);

// The pair for autograd. `batch` must stay where it is until the backward has run.
at::Tensor attention(const at::Tensor& qkv, const AttentionShape& shape, const DeviceBatch& batch);

}  // namespace packtrain
