#include "models/ops/gated_norm/gated_norm.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sum.h>
#include <c10/util/StringUtil.h>

#include "framework/core/error.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

void check_gated_norm(const at::Tensor& x, const at::Tensor& z, const Parameter& weight) {
  const bool fits = x.dim() == 3 && x.sizes() == z.sizes() && x.scalar_type() == z.scalar_type() &&
                    weight.value.size(0) == x.size(2);
  if (fits) return;
  throw Error(ErrorCategory::kInternal,
              c10::str("gated norm: got x ", x.sizes(), ", z ", z.sizes(), " and a weight ",
                       weight.value.sizes(), ", wanted x and z [T, H, V] and a weight [V]"));
}

// Backward computes the same bits again.
at::Tensor output_of(const at::Tensor& normalized, const at::Tensor& z, const Parameter& weight) {
  return at::mul(normalized, weight.value.to(at::kFloat)).mul_(at::silu(z));
}

}  // namespace

GatedNormOutput gated_norm_forward(const at::Tensor& x, const at::Tensor& z,
                                   const Parameter& weight, double epsilon) {
  check_gated_norm(x, z, weight);
  if (x.is_cuda()) return gated_norm_forward_cuda(x, z, weight, epsilon);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor inverse_rms =
      at::mul(wide, wide).mean(at::IntArrayRef{2}).add_(epsilon).rsqrt_();
  const at::Tensor y = output_of(at::mul(wide, inverse_rms.unsqueeze(2)), z.to(at::kFloat), weight);
  return {y.to(x.scalar_type()), inverse_rms};
}

at::Tensor gated_norm_backward(const at::Tensor& grad_output, const GatedNormSaved& saved,
                               const Parameter& weight, const at::Tensor& grad_z,
                               const at::Tensor& recomputed_output) {
  check_gated_norm(saved.x, saved.z, weight);
  if (saved.x.is_cuda()) {
    return gated_norm_backward_cuda(grad_output, saved, weight, grad_z, recomputed_output);
  }
  const at::Tensor inverse_rms = saved.inverse_rms.unsqueeze(2);
  const at::Tensor normalized = at::mul(saved.x.to(at::kFloat), inverse_rms);
  const at::Tensor z = saved.z.to(at::kFloat);
  const at::Tensor s = at::sigmoid(z);
  const at::Tensor scale = at::mul(weight.value.to(at::kFloat), at::mul(z, s));  // w u
  const at::Tensor product = at::mul(normalized, grad_output);
  write_gradient(weight, at::mul(product, z).mul_(s).sum(at::IntArrayRef{0, 1}));
  const at::Tensor slope = at::rsub(s, 1.0).mul_(z).add_(1).mul_(s);
  grad_z.copy_(at::mul(product, weight.value.to(at::kFloat)).mul_(slope));
  const at::Tensor along = at::mul(product, scale).mean(at::IntArrayRef{2}, /*keepdim=*/true);
  at::Tensor dx = at::mul(grad_output.to(at::kFloat), scale);
  dx.sub_(at::mul(normalized, along)).mul_(inverse_rms);
  if (recomputed_output.defined()) recomputed_output.copy_(output_of(normalized, z, weight));
  return dx.to(saved.x.scalar_type());
}

}  // namespace packtrain
