#include "models/ops/linear/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "models/ops/autograd.h"
#include "models/ops/gradient.h"

namespace packtrain {

at::Tensor linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                          const at::Tensor& residual) {
  const at::Tensor transposed = weight.value.t();
  if (residual.defined()) {
    const at::Tensor y = at::addmm(residual, x, transposed);
    return bias != nullptr ? y.add_(bias->value) : y;
  }
  return bias != nullptr ? at::addmm(bias->value, x, transposed) : at::mm(x, transposed);
}

at::Tensor linear_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                 const at::Tensor& sum) {
  return sum.defined() ? at::addmm(sum, grad_output, weight.value)
                       : at::mm(grad_output, weight.value);
}

void linear_backward_weight(const at::Tensor& grad_output, const at::Tensor& x,
                            const Parameter& weight, const Parameter* bias) {
  write_gradient_mm(weight, grad_output.t(), x);
  if (bias != nullptr && bias->grad.defined()) {
    write_gradient(*bias, grad_output.sum(at::IntArrayRef{0}, /*keepdim=*/false, at::kFloat));
  }
}

at::Tensor linear_backward(const at::Tensor& grad_output, const at::Tensor& x,
                           const Parameter& weight, const Parameter* bias) {
  linear_backward_weight(grad_output, x, weight, bias);
  return linear_backward_input(grad_output, weight);
}

at::Tensor linear(const at::Tensor& x, const Parameter& weight, const Parameter* bias) {
  return apply_operator({x},
                        {.forward =
                             [&weight, bias](const Tensors& inputs, Tensors& saved) {
                               saved = {inputs[0]};
                               return linear_forward(inputs[0], weight, bias);
                             },
                         .backward =
                             [&weight, bias](const Tensors& saved, const at::Tensor& grad_output) {
                               return Tensors{linear_backward(grad_output, saved[0], weight, bias)};
                             }});
}

}  // namespace packtrain
