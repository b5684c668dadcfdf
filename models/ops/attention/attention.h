// Causal attention inside each sequence of a packed batch, with grouped queries. For each sequence
// and query head h:
//    o = softmax(causal(scale q k^T)) v, with k and v of head h / (num_heads / num_kv_heads)
// The pattern says which keys a query sees: all before it, or with a window W keys i-W+1..i.
// Layers with chunks run on their boundaries (chunks.h), with the same kernels. A soft cap c turns
// scores s into c tanh(s / c) (Gemma 2). Sinks add to the softmax one logit for each head
// (sinks.h).
//
// qkv is [T, num_heads + 2 num_kv_heads, D], the query, key and value heads in this order. o is [T,
// num_heads D]. Both are float32 or bfloat16, and softmax is float32. Boundaries come from
// cu_seqlens. No sequence attends to another one, which includes the dummy sequence of the padding.
// A segment may have a prefix: rows of other segments that its queries see before their own
// (framework/data/attention_segment.h). The kernels below see copies of its keys (expanded_keys.h),
// except `plain`. `reference` serves prefixes on the CPU alone.
// Operations: 2 h D sum(L^2) forward, 5/2 of it backward. Backends (backends.h chooses; all support
// sinks):
//    cudnn      bfloat16 on CUDA, D a multiple of 16 up to 256: cuDNN's fused kernels for packed
//               sequences, with soft caps as a function of the scores. Backward adds dq with
//               atomics, so it is not deterministic. Where a batch has short sequences and it is
//               faster, kernels of our own have their backward (short/division.h).
//    flash      bfloat16 on CUDA, D a multiple of 8 up to 256: libtorch's variable-length
//               FlashAttention-2 (Dao, arXiv 2307.08691). Deterministic when
//               at::globalContext().setDeterministicAlgorithms is set.
//    wide       bfloat16 on CUDA, D = 512: kernels of our own (wide/attention.h). Deterministic.
//    wide_small the same for GPUs with less shared memory (8.0).
//    reference  all other cases without window and cap: one sequence after another, parallel over
//               cores on the CPU, with the memory-efficient kernel on CUDA. For comparison, not for
//               speed. Deterministic.
//    plain      soft caps and windows that cuDNN and flash do not support: the formula in float32,
//               some rows of scores at a time (plain.h). Exact and slow. Deterministic.
// Bytes: forward moves qkv, o and the logsumexps (4 h a token) once. Backward moves qkv, o, do and
// all gradients once, and dq, dk and dv of all query heads in float32 twice.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "framework/data/attention_pattern.h"
#include "models/block/batch.h"
#include "models/block/block.h"

namespace packtrain {

enum class AttentionBackend { kAuto, kCudnn, kFlash, kReference, kPlain, kWide, kWideSmall };

struct AttentionShape {
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;
  double scale = 0;  // factor of q k^T; 0: 1 / sqrt(head_dim)
  AttentionPattern pattern = {};
  AttentionBackend backend = AttentionBackend::kAuto;
  double soft_cap = 0;  // of the scores; 0: none

  bool operator==(const AttentionShape&) const = default;
};

struct AttentionOutput {
  at::Tensor y;                   // [T, num_heads * D]
  std::vector<at::Tensor> saved;  // for backward, in addition to qkv and y
};

// Gradients of the query, key and value heads as separate tensors; rotary's backward merges them.
// They may be views with other strides.
struct HeadGradients {
  at::Tensor query;  // [T, num_heads, D]
  at::Tensor key;    // [T, num_kv_heads, D]
  at::Tensor value;  // [T, num_kv_heads, D]
};

// `sinks` [num_heads] may be null. Throws what choose_attention_backend throws.
AttentionOutput attention_forward(const at::Tensor& qkv, const AttentionShape& shape,
                                  DeviceBatch& batch, const Parameter* sinks = nullptr,
                                  const OperatorOptions& options = {});
// Writes every element, and the gradient of the sinks.
HeadGradients attention_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                                 const at::Tensor& y, const std::vector<at::Tensor>& saved,
                                 const AttentionShape& shape, DeviceBatch& batch,
                                 const Parameter* sinks = nullptr,
                                 const OperatorOptions& options = {});

}  // namespace packtrain
