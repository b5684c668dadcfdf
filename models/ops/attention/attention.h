// Causal attention inside each sequence of a packed batch, with grouped queries:
//   for each sequence and query head h:  o = softmax(causal(scale q k^T)) v,
//   k and v of head h / (num_heads / num_kv_heads); with a window W, query i sees keys i-W+1..i;
// with a soft-cap c, scores s are c tanh(s / c) (Gemma 2); with sinks, the softmax has one logit a
// head more (sinks.h).
// qkv [T, num_heads + 2 num_kv_heads, D] (q, k, v heads in this order), o [T, num_heads D];
// float32 or bfloat16, softmax in float32. Boundaries come from cu_seqlens: sequences (the dummy of
// the padding too) never see each other. Operations: 2 h D sum(L^2) forward, 5/2 of it backward.
// Backends (backends.h chooses; sinks go with all of them):
//   cudnn      bfloat16 on CUDA, D a multiple of 16 up to 256: cuDNN's fused kernels for packed
//              sequences; soft-caps as a function of the scores inside them. Backward adds d q with
//              atomics: not deterministic.
//   flash      bfloat16 on CUDA, D a multiple of 8 up to 256: libtorch's variable-length
//              FlashAttention-2 (Dao, arXiv 2307.08691). Deterministic where libtorch is told so
//              (at::globalContext().setDeterministicAlgorithms).
//   reference  all else without window and cap: sequence by sequence, on the CPU over the cores, on
//              CUDA with the memory-efficient kernel, for comparison and not for speed.
//              Deterministic.
//   plain      soft-caps and windows anywhere, for where cuDNN and flash do not serve: the formula
//              in float32, some rows of scores at a time (plain.h). Exact and slow. Deterministic.
// Bytes: qkv, o and the softmax's sums (4 h a token) once forward; backward qkv, o, d o and all
// gradients once, and d q, d k and d v of all query heads in float32 twice more.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/batch.h"
#include "models/block.h"

namespace packtrain {

enum class AttentionBackend { kAuto, kCudnn, kFlash, kReference, kPlain };

struct AttentionShape {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  double scale = 0;         // of q k^T; 0: 1 / sqrt(head_dim)
  std::int64_t window = 0;  // keys a query sees, its own included; 0: all before it
  AttentionBackend backend = AttentionBackend::kAuto;
  double soft_cap = 0;  // of the scores; 0: none

  bool operator==(const AttentionShape&) const = default;
};

struct AttentionOutput {
  at::Tensor y;                   // [T, num_heads * D]
  std::vector<at::Tensor> saved;  // for backward, beside qkv and y
};

// Gradients of the query, key and value heads, each of its own: what comes next (rotary's backward)
// puts them into one tensor. They may be views with strides of their own.
struct HeadGradients {
  at::Tensor query;  // [T, num_heads, D]
  at::Tensor key;    // [T, num_kv_heads, D]
  at::Tensor value;  // [T, num_kv_heads, D]
};

// For the start of a run: throws what choose_attention_backend throws, and lets what the backend
// compiles, at the first batch that needs it, serve batches of up to `max_tokens`.
void prepare_attention(const AttentionShape& shape, std::int64_t max_tokens, at::Device device,
                       at::ScalarType dtype);

// `sinks` [num_heads] may be null. Throws what choose_attention_backend throws.
AttentionOutput attention_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                  const DeviceBatch& batch, const Parameter* sinks = nullptr);
// Every element is written; the sinks' gradient is written too.
HeadGradients attention_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                 const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                 const AttentionShape& shape, const DeviceBatch& batch,
                                 const Parameter* sinks = nullptr);

}  // namespace packtrain
