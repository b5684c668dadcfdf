// Views of the query, key and value heads in a merged tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>

#include "models/ops/attention/attention.h"

namespace packtrain {

struct Heads {
  at::Tensor query;  // [T, num_heads, D]
  at::Tensor key;    // [T, num_kv_heads, D]
  at::Tensor value;
};

// The factor of q k^T.
inline double attention_scale(const AttentionShape& shape) {
  return shape.scale != 0 ? shape.scale : 1 / std::sqrt(static_cast<double>(shape.head_dim));
}

inline Heads split_heads(const at::Tensor& qkv, const AttentionShape& shape) {
  return {qkv.narrow(1, 0, shape.num_heads), qkv.narrow(1, shape.num_heads, shape.num_kv_heads),
          qkv.narrow(1, shape.num_heads + shape.num_kv_heads, shape.num_kv_heads)};
}

}  // namespace packtrain
