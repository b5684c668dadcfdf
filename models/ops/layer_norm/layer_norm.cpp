#include "models/ops/layer_norm/layer_norm.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include "models/ops/gradient.h"

namespace packtrain {
namespace {

at::Tensor row_mean(const at::Tensor& x) {
  return x.mean(at::IntArrayRef{-1}, /*keepdim=*/true);
}

at::Tensor output_of(const at::Tensor& normalized, const Parameter& weight, const Parameter* bias) {
  at::Tensor y = at::mul(normalized, weight.value);
  if (bias != nullptr) y.add_(bias->value);
  return y;
}

}  // namespace

LayerNormOutput layer_norm_forward(const at::Tensor& x, const Parameter& weight,
                                   const Parameter* bias, const LayerNormOptions& options,
                                   const at::Tensor& amax) {
  if (x.is_cuda()) return layer_norm_forward_cuda(x, weight, bias, options, amax);
  const at::Tensor wide = x.to(at::kFloat);
  at::Tensor mean = row_mean(wide);
  const at::Tensor centered = at::sub(wide, mean);
  at::Tensor inverse_deviation =
      row_mean(at::mul(centered, centered)).add_(options.epsilon).rsqrt_();
  const at::Tensor y = output_of(at::mul(centered, inverse_deviation), weight, bias);
  return {y.to(x.scalar_type()), mean, inverse_deviation};
}

at::Tensor layer_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse_deviation,
                               const Parameter& weight, const Parameter* bias,
                               const at::Tensor& grad_residual,
                               const at::Tensor& recomputed_output) {
  if (x.is_cuda()) {
    return layer_norm_backward_cuda(grad_output, x, mean, inverse_deviation, weight, bias,
                                    grad_residual, recomputed_output);
  }
  const at::Tensor grad = grad_output.to(at::kFloat);
  const at::Tensor normalized = at::sub(x, mean).mul_(inverse_deviation);
  const at::Tensor product = at::mul(normalized, grad);
  if (weight.grad.defined()) write_gradient(weight, product.sum(at::IntArrayRef{0}));
  if (bias != nullptr && bias->grad.defined()) {
    write_gradient(*bias, grad.sum(at::IntArrayRef{0}));
  }
  at::Tensor dx = at::mul(grad, weight.value);
  const at::Tensor shift = row_mean(dx);
  const at::Tensor projection = row_mean(at::mul(product, weight.value));
  dx.sub_(shift).sub_(at::mul(normalized, projection)).mul_(inverse_deviation);
  if (grad_residual.defined()) dx.add_(grad_residual);
  if (recomputed_output.defined()) recomputed_output.copy_(output_of(normalized, weight, bias));
  return dx.to(x.scalar_type());
}

}  // namespace packtrain
