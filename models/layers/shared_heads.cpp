#include "models/layers/shared_heads.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/rsqrt.h>

#include "framework/core/error.h"

namespace packtrain {
namespace {

at::Tensor mean_of_products(const at::Tensor& a, const at::Tensor& b) {
  return at::mul(a, b).mean(at::IntArrayRef{-1}, /*keepdim=*/true);
}

at::Tensor values_of(const at::Tensor& heads, const AttentionShape& shape) {
  return heads.narrow(1, shape.num_heads + shape.num_kv_heads, shape.num_kv_heads);
}

RotaryOptions rotary_of_queries(const QueryNorm& norm, const at::Tensor& queries) {
  RotaryOptions rotary = norm.rotary;
  rotary.num_rotated_heads = queries.size(1);
  return rotary;
}

// The heads of all tokens as rows.
at::Tensor head_rows(const at::Tensor& heads) {
  return heads.reshape({heads.size(0) * heads.size(1), heads.size(2)});
}

}  // namespace

at::Tensor with_keys_as_values(const at::Tensor& heads, const AttentionShape& shape) {
  return at::cat({heads, heads.narrow(1, shape.num_heads, shape.num_kv_heads)}, 1);
}

at::Tensor with_values_in_keys(const at::Tensor& grad, const AttentionShape& shape) {
  const at::Tensor queries = grad.narrow(1, 0, shape.num_heads);
  const at::Tensor keys = grad.narrow(1, shape.num_heads, shape.num_kv_heads);
  return at::cat({queries, at::add(keys, values_of(grad, shape))}, 1);
}

at::Tensor norm_values_(const at::Tensor& heads, const AttentionShape& shape, double epsilon) {
  const at::Tensor values = values_of(heads, shape);
  const at::Tensor exact = values.to(at::kFloat);
  const at::Tensor inverse_rms = mean_of_products(exact, exact).add_(epsilon).rsqrt_();
  values.copy_(at::mul(exact, inverse_rms));
  return inverse_rms.squeeze(2);
}

at::Tensor value_norm_backward(const at::Tensor& grad_value, const at::Tensor& heads,
                               const at::Tensor& inverse_rms, const AttentionShape& shape) {
  const at::Tensor grad = grad_value.to(at::kFloat);
  const at::Tensor normed = values_of(heads, shape).to(at::kFloat);
  const at::Tensor along = at::mul(normed, mean_of_products(grad, normed));
  return at::mul(grad.sub(along), inverse_rms.unsqueeze(2)).to(heads.scalar_type());
}

void keep_keys(const at::Tensor& heads, const AttentionShape& shape, SharedRows& shared) {
  // A recomputation in backward must keep the gradients of later layers.
  shared.rows = heads.narrow(1, shape.num_heads, 2 * shape.num_kv_heads).clone();
}

void add_readers(SharedRows& shared, HeadGradients& grads) {
  if (shared.gradient.defined()) {
    const std::int64_t num_keys = grads.key.size(1);
    grads.key = at::add(grads.key, shared.gradient.narrow(1, 0, num_keys));
    grads.value = at::add(grads.value, shared.gradient.narrow(1, num_keys, num_keys));
  }
  shared = {};
}

at::Tensor with_shared_keys(const at::Tensor& queries, const SharedRows& shared) {
  if (!shared.rows.defined()) {
    throw Error(ErrorCategory::kInternal,
                "attention reads keys of an earlier layer, which has not run");
  }
  return at::cat({queries, shared.rows}, 1);
}

void add_reader(const HeadGradients& grads, SharedRows& shared) {
  shared.add_gradient(at::cat({grads.key, grads.value}, 1));
}

NormedQueries query_norm_forward(const at::Tensor& queries, const QueryNorm& norm) {
  RmsNormOutput output = rms_norm_forward(head_rows(queries), norm.weight, norm.options);
  at::Tensor heads = output.y.view(queries.sizes());
  rotary_forward_(heads, norm.position_ids, norm.frequencies, rotary_of_queries(norm, queries));
  return {heads, output.inverse_rms.view({queries.size(0), queries.size(1)})};
}

at::Tensor query_norm_backward(const at::Tensor& grad, const at::Tensor& queries,
                               const at::Tensor& inverse_rms, const QueryNorm& norm) {
  at::Tensor turned_back = grad.clone(at::MemoryFormat::Contiguous);
  rotary_forward_(turned_back, norm.position_ids, at::neg(norm.frequencies),
                  rotary_of_queries(norm, queries));
  const at::Tensor rows = rms_norm_backward(head_rows(turned_back), head_rows(queries),
                                            inverse_rms.view({-1, 1}), norm.weight, norm.options);
  return rows.view(queries.sizes());
}

}  // namespace packtrain
