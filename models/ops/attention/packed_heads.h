// The heads of a batch as kernels for packed sequences read them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "models/ops/attention/expanded_keys.h"
#include "models/ops/attention/heads.h"

namespace packtrain {

struct PackedHeads {
  Heads heads;  // with prefixes keys and values are copies, [K, num_kv_heads, D]
  const ExpandedKeys* expanded = nullptr;  // null without prefixes; the batch's
  at::Tensor cu_queries;                   // int32 [S + 1]
  at::Tensor cu_keys;
  std::int64_t max_queries = 0;
  std::int64_t max_keys = 0;

  std::int64_t num_sequences() const { return cu_queries.size(0) - 1; }
};

PackedHeads packed_heads(const at::Tensor& qkv, const AttentionShape& shape, DeviceBatch& batch);

// Sums gradients of keys and values over the copies of each row. Without prefixes there is one.
HeadGradients gradients_of_rows(HeadGradients grad, const PackedHeads& in);

}  // namespace packtrain
