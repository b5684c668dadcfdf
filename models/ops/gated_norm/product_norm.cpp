#include "models/ops/gated_norm/product_norm.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/sum.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

void check_gated_product(const at::Tensor& x, const at::Tensor& z) {
  if (x.dim() == 2 && x.sizes() == z.sizes() && x.scalar_type() == z.scalar_type()) return;
  throw Error(ErrorCategory::kInternal,
              fmt::format("gated product: got x [{}] and z [{}], wanted both [T, W]",
                          fmt::join(x.sizes(), ", "), fmt::join(z.sizes(), ", ")));
}

void check_product_norm(const at::Tensor& x, const at::Tensor& z, const Parameter& weight,
                        const ProductNormOptions& options) {
  const bool fits = x.dim() == 2 && x.sizes() == z.sizes() && x.scalar_type() == z.scalar_type() &&
                    weight.value.dim() == 1 && weight.value.size(0) == x.size(1) &&
                    options.parts > 0 && x.size(1) % options.parts == 0;
  if (fits) return;
  throw Error(ErrorCategory::kInternal,
              fmt::format("norm of a gated product: got x [{}], z [{}], a weight [{}] and {} "
                          "parts, wanted x and z [T, W], a weight [W] and a divisor of W",
                          fmt::join(x.sizes(), ", "), fmt::join(z.sizes(), ", "),
                          fmt::join(weight.value.sizes(), ", "), options.parts));
}

// [T, W] as [T, parts, W / parts].
at::Tensor by_part(const at::Tensor& rows, const ProductNormOptions& options) {
  return rows.view({rows.size(0), options.parts, rows.size(1) / options.parts});
}

at::Tensor inverse_rms_of(const at::Tensor& product, const ProductNormOptions& options) {
  return at::mul(product, product)
      .mean(at::IntArrayRef{2}, /*keepdim=*/true)
      .add_(options.epsilon)
      .rsqrt_();
}

// u r, [T, parts, W / parts].
at::Tensor normalized_product(const at::Tensor& product, const ProductNormOptions& options) {
  const at::Tensor u = by_part(product, options);
  return at::mul(u, inverse_rms_of(u, options));
}

}  // namespace

at::Tensor product_norm_forward(const at::Tensor& x, const at::Tensor& z, const Parameter& weight,
                                const ProductNormOptions& options) {
  check_product_norm(x, z, weight, options);
  if (x.is_cuda()) return product_norm_forward_cuda(x, z, &weight, options);
  const at::Tensor product = at::silu(z.to(at::kFloat)).mul_(x);
  const at::Tensor normalized = normalized_product(product, options);
  return at::mul(normalized.view(x.sizes()), weight.value).to(x.scalar_type());
}

at::Tensor product_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                                 const at::Tensor& z, const Parameter& weight,
                                 const ProductNormOptions& options, const at::Tensor& grad_z,
                                 const at::Tensor& recomputed_output) {
  check_product_norm(x, z, weight, options);
  if (x.is_cuda()) {
    return product_norm_backward_cuda(grad_output, x, z, &weight, options, grad_z,
                                      recomputed_output);
  }
  const at::Tensor wide_z = z.to(at::kFloat);
  const at::Tensor s = at::sigmoid(wide_z);
  const at::Tensor gate = at::silu(wide_z);
  const at::Tensor product = at::mul(gate, x);
  const at::Tensor inverse_rms = inverse_rms_of(by_part(product, options), options);
  const at::Tensor n = at::mul(by_part(product, options), inverse_rms);
  if (recomputed_output.defined()) {
    recomputed_output.copy_(at::mul(n.view(x.sizes()), weight.value));
  }
  const at::Tensor grad = grad_output.to(at::kFloat);
  write_gradient(weight, at::mul(grad, n.view(x.sizes())).sum(0));
  at::Tensor v = by_part(at::mul(grad, weight.value), options);
  const at::Tensor along = at::mul(v, n).mean(at::IntArrayRef{2}, /*keepdim=*/true);
  const at::Tensor grad_product = v.sub_(at::mul(n, along)).mul_(inverse_rms).view(x.sizes());
  const at::Tensor slope = at::rsub(s, 1.0).mul_(wide_z).add_(1.0).mul_(s);
  grad_z.copy_(slope.mul_(grad_product).mul_(x));
  return at::mul(grad_product, gate).to(x.scalar_type());
}

at::Tensor gated_product_forward(const at::Tensor& x, const at::Tensor& z) {
  check_gated_product(x, z);
  if (x.is_cuda()) return product_norm_forward_cuda(x, z, nullptr, {});
  return at::silu(z.to(at::kFloat)).mul_(x).to(x.scalar_type());
}

at::Tensor gated_product_backward(const at::Tensor& grad_output, const at::Tensor& x,
                                  const at::Tensor& z, const at::Tensor& grad_z) {
  check_gated_product(x, z);
  if (x.is_cuda()) return product_norm_backward_cuda(grad_output, x, z, nullptr, {}, grad_z, {});
  const at::Tensor wide_z = z.to(at::kFloat);
  const at::Tensor grad = grad_output.to(at::kFloat);
  grad_z.copy_(at::silu_backward(at::mul(grad, x), wide_z));
  return at::silu(wide_z).mul_(grad).to(x.scalar_type());
}

}  // namespace packtrain
