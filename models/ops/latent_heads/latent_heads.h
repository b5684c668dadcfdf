// The heads of multi-head latent attention (DeepSeek-AI, arXiv 2405.04434, section 2.1) in the
// layout that attention reads. A query has N elements without a position and then R with one. The
// projection of compressed rows has for each head N elements of its key, then V of its value. All
// heads share the R elements of a key that have a position.
//    merged query [R of the query, N of the query]
//    merged key   [R that all heads share, N of the key]
//    merged value [V of the value, zeros]
//
// A merged head has D = N + R elements. No value is wider than that. Elements with a position come
// first because rotary positions turn the first ones of a head (ops/rotary). The order changes no
// product of a query and a key. Attention's outputs have zeros after their first V elements, which
// are left out.
// Tensors are float32 or bfloat16. Copies are exact. The gradient of the shared elements is a sum
// over heads in float32, rounded once. Deterministic. Nothing waits for the device. Elements that
// must move: T (H (5 N + 4 R + V) + R) in forward, the same in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace packtrain {

struct LatentHeadShape {
  std::int64_t num_heads = 0;     // H
  std::int64_t rotary_dim = 0;    // R
  std::int64_t unturned_dim = 0;  // N
  std::int64_t value_dim = 0;     // V

  std::int64_t head_dim() const { return rotary_dim + unturned_dim; }
};

struct LatentHeads {
  at::Tensor query;      // [T, H (N + R)]
  at::Tensor key_value;  // [T, H (N + V)]
  at::Tensor key_rope;   // [T, R]
};

// Returns [T, 3 H, D]: the query, key and value heads in this order.
at::Tensor merge_latent_heads(const LatentHeads& heads, const LatentHeadShape& shape);
// The gradients of the parts, from that of the merged heads.
LatentHeads merge_latent_heads_backward(const at::Tensor& grad, const LatentHeadShape& shape);

// The first V of the D elements of each head: [T, H D] to [T, H V].
at::Tensor leave_out_zeros(const at::Tensor& y, const LatentHeadShape& shape);
// Its gradient [T, H D], which is 0 where elements were left out.
at::Tensor leave_out_zeros_backward(const at::Tensor& grad, const LatentHeadShape& shape);

// On CUDA tensors. The functions above call these; no_cuda_mixers.cpp has them in a build without
// CUDA.
at::Tensor merge_latent_heads_cuda(const LatentHeads& heads, const LatentHeadShape& shape);
LatentHeads merge_latent_heads_backward_cuda(const at::Tensor& grad, const LatentHeadShape& shape);

}  // namespace packtrain
