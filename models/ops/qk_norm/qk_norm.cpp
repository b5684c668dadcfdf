#include "models/ops/qk_norm/qk_norm.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>

#include "models/ops/gradient.h"

namespace packtrain {
namespace {

// Scale of each head, 1 + w or w: float32 [heads + kv, D].
at::Tensor scale_of(const QkNorm& norm, std::int64_t num_heads) {
  const std::int64_t head_dim = norm.query.value.size(0);
  const at::Tensor query = norm.query.value.to(at::kFloat).expand({norm.num_query_heads, head_dim});
  const at::Tensor key =
      norm.key.value.to(at::kFloat).expand({num_heads - norm.num_query_heads, head_dim});
  return at::cat({query, key}, 0).add_(norm.options.weight_offset);
}

}  // namespace

QkNormOutput qk_norm_forward(const at::Tensor& qkv, const QkNorm& norm,
                             const at::Tensor& position_ids, const at::Tensor& frequencies,
                             const RotaryOptions& rotary) {
  if (qkv.is_cuda()) return qk_norm_forward_cuda(qkv, norm, position_ids, frequencies, rotary);
  const at::Tensor heads = qkv.narrow(1, 0, rotary.num_rotated_heads).to(at::kFloat);
  const at::Tensor inverse_rms =
      at::mul(heads, heads).mean(at::IntArrayRef{-1}).add_(norm.options.epsilon).rsqrt_();
  at::Tensor qk =
      at::mul(heads, inverse_rms.unsqueeze(2)).mul_(scale_of(norm, rotary.num_rotated_heads));
  rotary_forward_(qk, position_ids, frequencies, rotary);
  at::Tensor output = qkv.clone();
  output.narrow(1, 0, rotary.num_rotated_heads).copy_(qk);
  return {output, inverse_rms};
}

at::Tensor qk_norm_backward(const at::Tensor& grad_query, const at::Tensor& grad_key,
                            const at::Tensor& grad_value, const at::Tensor& qkv,
                            const at::Tensor& inverse_rms, const QkNorm& norm,
                            const at::Tensor& position_ids, const at::Tensor& frequencies,
                            const RotaryOptions& rotary) {
  if (qkv.is_cuda()) {
    return qk_norm_backward_cuda(grad_query, grad_key, grad_value, qkv, inverse_rms, norm,
                                 position_ids, frequencies, rotary);
  }
  at::Tensor grad = rotary_backward(grad_query.to(at::kFloat), grad_key.to(at::kFloat),
                                    grad_value.to(at::kFloat), position_ids, frequencies, rotary);
  const std::int64_t num_heads = rotary.num_rotated_heads;
  const at::Tensor turned_back = grad.narrow(1, 0, num_heads);
  const at::Tensor inverse = inverse_rms.unsqueeze(2);
  const at::Tensor normalized = at::mul(qkv.narrow(1, 0, num_heads), inverse);
  const at::Tensor product = at::mul(normalized, turned_back);
  const at::Tensor by_head = product.sum(at::IntArrayRef{0});
  write_gradient(norm.query, by_head.narrow(0, 0, norm.num_query_heads).sum(at::IntArrayRef{0}));
  write_gradient(norm.key, by_head.narrow(0, norm.num_query_heads, num_heads - norm.num_query_heads)
                               .sum(at::IntArrayRef{0}));
  const at::Tensor scale = scale_of(norm, num_heads);
  const at::Tensor projection = at::mul(product, scale).mean(at::IntArrayRef{-1}, /*keepdim=*/true);
  turned_back.mul_(scale).sub_(at::mul(normalized, projection)).mul_(inverse);
  return grad.to(qkv.scalar_type());
}

}  // namespace packtrain
