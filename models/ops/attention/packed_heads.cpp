#include "models/ops/attention/packed_heads.h"

#include <ATen/ops/empty.h>

namespace packtrain {

PackedHeads packed_heads(const at::Tensor& qkv, const AttentionShape& shape, DeviceBatch& batch) {
  PackedHeads packed;
  packed.heads = split_heads(qkv, shape);
  if (batch.segments().are_sequences()) {
    packed.cu_queries = packed.cu_keys = batch.cu_seqlens;
    packed.max_queries = packed.max_keys = batch.max_seqlen;
    return packed;
  }
  const ExpandedKeys& keys = expanded_keys(batch);
  // Keys and values of a row are adjacent: one pass copies both.
  const at::Tensor copies =
      expand_rows(qkv.narrow(1, shape.num_heads, 2 * shape.num_kv_heads), keys);
  packed.heads.key = copies.narrow(1, 0, shape.num_kv_heads);
  packed.heads.value = copies.narrow(1, shape.num_kv_heads, shape.num_kv_heads);
  packed.expanded = &keys;
  packed.cu_queries = keys.cu_queries;
  packed.cu_keys = keys.cu_keys;
  packed.max_queries = keys.max_queries;
  packed.max_keys = keys.max_keys;
  return packed;
}

HeadGradients gradients_of_rows(HeadGradients grad, const PackedHeads& in) {
  if (in.expanded == nullptr) return grad;
  const auto sum = [&](const at::Tensor& copies) {
    at::Tensor rows =
        at::empty({grad.query.size(0), copies.size(1), copies.size(2)}, copies.options());
    sum_copies(copies.contiguous(), *in.expanded, rows);
    return rows;
  };
  grad.key = sum(grad.key);
  grad.value = sum(grad.value);
  return grad;
}

}  // namespace packtrain
