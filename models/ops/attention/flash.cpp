#include "models/ops/attention/flash.h"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <algorithm>
#include <optional>

#include "models/ops/attention/packed_heads.h"

namespace packtrain {
namespace {

// Keys before its own that a query attends to. The library does not count the query's own key.
std::optional<std::int64_t> keys_before(const AttentionShape& shape) {
  return shape.pattern.is_full() ? std::nullopt : std::optional(shape.pattern.window - 1);
}

// An upper bound of the queries of a sequence. The library treats a maximum of one query as
// decoding, in which it takes no empty sequences.
std::int64_t most_queries(const PackedHeads& in) {
  return std::max<std::int64_t>(in.max_queries, 2);
}

}  // namespace

AttentionOutput flash_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              DeviceBatch& batch) {
  const PackedHeads in = packed_heads(qkv, shape, batch);
  auto [y, logsumexp, random_state, unused, mask] = at::_flash_attention_forward(
      in.heads.query, in.heads.key, in.heads.value, in.cu_queries, in.cu_keys, most_queries(in),
      in.max_keys, /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false,
      attention_scale(shape), keys_before(shape));
  return {y.reshape({qkv.size(0), shape.num_heads * shape.head_dim}),
          {logsumexp, random_state, unused}};
}

HeadGradients flash_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, DeviceBatch& batch) {
  PackedHeads in = packed_heads(qkv, shape, batch);
  const at::Tensor query = in.heads.query;
  const auto [grad_query, grad_key, grad_value] = at::_flash_attention_backward(
      grad_output.view_as(query), query, in.heads.key, in.heads.value, y.view_as(query), saved[0],
      in.cu_queries, in.cu_keys, most_queries(in), in.max_keys, /*dropout_p=*/0.0,
      /*is_causal=*/true, saved[1], saved[2], attention_scale(shape), keys_before(shape));
  in.heads = {};  // frees the copies before those of the gradients are summed
  return gradients_of_rows({grad_query, grad_key, grad_value}, in);
}

}  // namespace packtrain
