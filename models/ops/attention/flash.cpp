#include "models/ops/attention/flash.h"

#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>

#include <optional>

#include "models/ops/attention/heads.h"

namespace packtrain {
namespace {

// Keys before its own that a query attends to. The library does not count the query's own key.
std::optional<std::int64_t> keys_before(const AttentionShape& shape) {
  return shape.pattern.is_full() ? std::nullopt : std::optional(shape.pattern.window - 1);
}

}  // namespace

AttentionOutput flash_forward(const at::Tensor& qkv, const AttentionShape& shape,
                              const DeviceBatch& batch) {
  const Heads heads = split_heads(qkv, shape);
  auto [y, logsumexp, random_state, unused, mask] = at::_flash_attention_forward(
      heads.query, heads.key, heads.value, batch.cu_seqlens, batch.cu_seqlens, batch.max_seqlen,
      batch.max_seqlen, /*dropout_p=*/0.0, /*is_causal=*/true, /*return_debug_mask=*/false,
      attention_scale(shape), keys_before(shape));
  return {y.reshape({qkv.size(0), shape.num_heads * shape.head_dim}),
          {logsumexp, random_state, unused}};
}

HeadGradients flash_backward(const at::Tensor& grad_output, const at::Tensor& qkv,
                             const at::Tensor& y, const std::vector<at::Tensor>& saved,
                             const AttentionShape& shape, const DeviceBatch& batch) {
  const Heads heads = split_heads(qkv, shape);
  const auto [grad_query, grad_key, grad_value] = at::_flash_attention_backward(
      grad_output.view_as(heads.query), heads.query, heads.key, heads.value, y.view_as(heads.query),
      saved[0], batch.cu_seqlens, batch.cu_seqlens, batch.max_seqlen, batch.max_seqlen,
      /*dropout_p=*/0.0, /*is_causal=*/true, saved[1], saved[2], attention_scale(shape),
      keys_before(shape));
  return {grad_query, grad_key, grad_value};
}

}  // namespace packtrain
