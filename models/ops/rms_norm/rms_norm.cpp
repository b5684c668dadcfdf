#include "models/ops/rms_norm/rms_norm.h"

#include <ATen/ops/add.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <c10/util/StringUtil.h>

#include "framework/core/error.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

at::Tensor scale_of(const Parameter& weight, const RmsNormOptions& options) {
  return at::add(weight.value.to(at::kFloat), options.weight_offset);
}

void require_same_rows(const at::Tensor& x, const at::Tensor& other, const char* name) {
  const bool side_by_side = x.stride(1) == 1 && other.stride(1) == 1;
  if (x.sizes() == other.sizes() && side_by_side && x.stride(0) == other.stride(0)) return;
  throw Error(ErrorCategory::kInternal,
              c10::str("rms_norm: got x ", x.sizes(), " of strides ", x.strides(), " and ", name,
                       " ", other.sizes(), " of strides ", other.strides(),
                       ", wanted the same of both and elements side by side"));
}

}  // namespace

RmsNormOutput rms_norm_forward(const at::Tensor& x, const Parameter& weight,
                               const RmsNormOptions& options, const at::Tensor& amax) {
  if (x.is_cuda()) return rms_norm_forward_cuda(x, weight, options, amax);
  const at::Tensor wide = x.to(at::kFloat);
  at::Tensor inverse_rms = at::mul(wide, wide)
                               .mean(at::IntArrayRef{-1}, /*keepdim=*/true)
                               .add_(options.epsilon)
                               .rsqrt_();
  const at::Tensor y = at::mul(wide, inverse_rms).mul_(scale_of(weight, options));
  return {y.to(x.scalar_type()), inverse_rms};
}

at::Tensor rms_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                             const at::Tensor& inverse_rms, const Parameter& weight,
                             const RmsNormOptions& options, const at::Tensor& grad_residual,
                             const at::Tensor& recomputed_output) {
  if (x.is_cuda()) {
    return rms_norm_backward_cuda(grad_output, x, inverse_rms, weight, options, grad_residual,
                                  recomputed_output);
  }
  const at::Tensor normalized = at::mul(x, inverse_rms);  // float32 by promotion
  const at::Tensor scale = scale_of(weight, options);
  const at::Tensor product = at::mul(normalized, grad_output);
  if (weight.grad.defined()) {
    write_gradient(weight, product.sum(at::IntArrayRef{0}));
  }
  const at::Tensor projection = at::mul(product, scale).mean(at::IntArrayRef{-1}, /*keepdim=*/true);
  at::Tensor dx = at::mul(grad_output.to(at::kFloat), scale);
  dx.sub_(at::mul(normalized, projection)).mul_(inverse_rms);
  if (grad_residual.defined()) dx.add_(grad_residual);
  if (recomputed_output.defined()) recomputed_output.copy_(at::mul(normalized, scale));
  return dx.to(x.scalar_type());
}

at::Tensor rms_norm_forward_into(const at::Tensor& y, const at::Tensor& x, const Parameter& weight,
                                 const RmsNormOptions& options) {
  require_same_rows(x, y, "y");
  if (x.is_cuda()) return rms_norm_forward_into_cuda(y, x, weight, options);
  RmsNormOutput output = rms_norm_forward(x, weight, options);
  y.copy_(output.y);
  return std::move(output.inverse_rms);
}

void rms_norm_backward_(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& inverse_rms,
                        const Parameter& weight, const RmsNormOptions& options) {
  require_same_rows(x, grad, "grad");
  if (x.is_cuda()) return rms_norm_backward_cuda_(grad, x, inverse_rms, weight, options);
  grad.copy_(rms_norm_backward(grad, x, inverse_rms, weight, options));
}

}  // namespace packtrain
