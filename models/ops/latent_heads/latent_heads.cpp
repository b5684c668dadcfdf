#include "models/ops/latent_heads/latent_heads.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace packtrain {
namespace {

// Rows of heads as [T, H, elements of a head].
at::Tensor latent_by_head(const at::Tensor& rows, const LatentHeadShape& shape) {
  return rows.view({rows.size(0), shape.num_heads, rows.size(1) / shape.num_heads});
}

at::Tensor latent_rows(const at::Tensor& heads) {
  // Of one head reshape() would return a view with gaps between rows.
  return heads.reshape({heads.size(0), heads.size(1) * heads.size(2)}).contiguous();
}

// The parts of [T, H, N + R], elements without a position first.
struct QueryParts {
  at::Tensor unturned;
  at::Tensor turned;

  QueryParts(const at::Tensor& heads, const LatentHeadShape& shape)
      : unturned(heads.narrow(2, 0, shape.unturned_dim)),
        turned(heads.narrow(2, shape.unturned_dim, shape.rotary_dim)) {}
};

// The parts of [T, H, N + V].
struct KeyValueParts {
  at::Tensor unturned;
  at::Tensor value;

  KeyValueParts(const at::Tensor& heads, const LatentHeadShape& shape)
      : unturned(heads.narrow(2, 0, shape.unturned_dim)),
        value(heads.narrow(2, shape.unturned_dim, shape.value_dim)) {}
};

// The parts of the merged heads [T, 3 H, D].
struct MergedParts {
  at::Tensor query_turned;
  at::Tensor query_unturned;
  at::Tensor key_turned;
  at::Tensor key_unturned;
  at::Tensor value;
  at::Tensor zeros;

  MergedParts(const at::Tensor& merged, const LatentHeadShape& shape) {
    const std::int64_t turned = shape.rotary_dim;
    const auto part = [&](std::int64_t number, std::int64_t begin, std::int64_t size) {
      return merged.narrow(1, number * shape.num_heads, shape.num_heads).narrow(2, begin, size);
    };
    query_turned = part(0, 0, turned);
    query_unturned = part(0, turned, shape.unturned_dim);
    key_turned = part(1, 0, turned);
    key_unturned = part(1, turned, shape.unturned_dim);
    value = part(2, 0, shape.value_dim);
    zeros = part(2, shape.value_dim, shape.head_dim() - shape.value_dim);
  }
};

}  // namespace

at::Tensor merge_latent_heads(const LatentHeads& heads, const LatentHeadShape& shape) {
  if (heads.query.is_cuda()) return merge_latent_heads_cuda(heads, shape);
  const std::int64_t num_rows = heads.query.size(0);
  at::Tensor merged =
      at::empty({num_rows, 3 * shape.num_heads, shape.head_dim()}, heads.query.options());
  const MergedParts to(merged, shape);
  const QueryParts query(latent_by_head(heads.query, shape), shape);
  const KeyValueParts key_value(latent_by_head(heads.key_value, shape), shape);
  to.query_turned.copy_(query.turned);
  to.query_unturned.copy_(query.unturned);
  to.key_turned.copy_(heads.key_rope.unsqueeze(1).expand_as(to.key_turned));
  to.key_unturned.copy_(key_value.unturned);
  to.value.copy_(key_value.value);
  to.zeros.zero_();
  return merged;
}

LatentHeads merge_latent_heads_backward(const at::Tensor& grad, const LatentHeadShape& shape) {
  if (grad.is_cuda()) return merge_latent_heads_backward_cuda(grad, shape);
  const std::int64_t num_rows = grad.size(0);
  const MergedParts from(grad, shape);
  const at::Tensor query = at::empty({num_rows, shape.num_heads, shape.head_dim()}, grad.options());
  const at::Tensor key_value =
      at::empty({num_rows, shape.num_heads, shape.unturned_dim + shape.value_dim}, grad.options());
  const QueryParts of_query(query, shape);
  const KeyValueParts of_key_value(key_value, shape);
  of_query.turned.copy_(from.query_turned);
  of_query.unturned.copy_(from.query_unturned);
  of_key_value.unturned.copy_(from.key_unturned);
  of_key_value.value.copy_(from.value);
  const at::Tensor shared = from.key_turned.sum(/*dim=*/1, /*keepdim=*/false, at::kFloat);
  return {latent_rows(query), latent_rows(key_value), shared.to(grad.scalar_type())};
}

at::Tensor leave_out_zeros(const at::Tensor& y, const LatentHeadShape& shape) {
  return latent_rows(latent_by_head(y, shape).narrow(2, 0, shape.value_dim));
}

at::Tensor leave_out_zeros_backward(const at::Tensor& grad, const LatentHeadShape& shape) {
  const at::Tensor whole =
      at::zeros({grad.size(0), shape.num_heads, shape.head_dim()}, grad.options());
  whole.narrow(2, 0, shape.value_dim).copy_(latent_by_head(grad, shape));
  return latent_rows(whole);
}

}  // namespace packtrain
