#include "models/ops/rms_norm/rms_norm.h"

#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>

#include "models/ops/autograd.h"
#include "models/ops/gradient.h"
#include "models/ops/rms_norm/rms_norm_cuda.h"

namespace packtrain {

RmsNormOutput rms_norm_forward(const at::Tensor& x, const Parameter& weight, double epsilon) {
  if (x.is_cuda()) return rms_norm_forward_cuda(x, weight, epsilon);
  const at::Tensor wide = x.to(at::kFloat);
  at::Tensor inverse_rms =
      at::mul(wide, wide).mean(at::IntArrayRef{-1}, /*keepdim=*/true).add_(epsilon).rsqrt_();
  const at::Tensor y = at::mul(wide, inverse_rms).mul_(weight.value);
  return {y.to(x.scalar_type()), inverse_rms};
}

at::Tensor rms_norm_backward(const at::Tensor& grad_output, const at::Tensor& x,
                             const at::Tensor& inverse_rms, const Parameter& weight) {
  if (x.is_cuda()) return rms_norm_backward_cuda(grad_output, x, inverse_rms, weight);
  const at::Tensor normalized = at::mul(x, inverse_rms);  // float32 by promotion
  const at::Tensor product = at::mul(normalized, grad_output);
  if (weight.grad.defined()) {
    write_gradient(weight, product.sum(at::IntArrayRef{0}));
  }
  const at::Tensor projection =
      at::mul(product, weight.value).mean(at::IntArrayRef{-1}, /*keepdim=*/true);
  at::Tensor dx = at::mul(grad_output.to(at::kFloat), weight.value);
  dx.sub_(at::mul(normalized, projection)).mul_(inverse_rms);
  return dx.to(x.scalar_type());
}

at::Tensor rms_norm(const at::Tensor& x, const Parameter& weight, double epsilon) {
  return apply_operator(
      {x}, {.forward =
                [&weight, epsilon](const Tensors& inputs, Tensors& saved) {
                  RmsNormOutput output = rms_norm_forward(inputs[0], weight, epsilon);
                  saved = {inputs[0], output.inverse_rms};
                  return output.y;
                },
            .backward =
                [&weight](const Tensors& saved, const at::Tensor& grad_output) {
                  return Tensors{rms_norm_backward(grad_output, saved[0], saved[1], weight)};
                }});
}

}  // namespace packtrain
