#include "models/ops/linear/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>

#include "models/ops/autograd.h"
#include "models/ops/gradient.h"

namespace packtrain {

at::Tensor linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias) {
  if (bias != nullptr) {
    return at::addmm(bias->value, x, weight.value.t());
  }
  return at::mm(x, weight.value.t());
}

at::Tensor linear_backward(const at::Tensor& grad_output, const at::Tensor& x,
                           const Parameter& weight, const Parameter* bias) {
  write_gradient_mm(weight, grad_output.t(), x);
  if (bias != nullptr && bias->grad.defined()) {
    write_gradient(*bias, grad_output.sum(at::IntArrayRef{0}, /*keepdim=*/false, at::kFloat));
  }
  return at::mm(grad_output, weight.value);
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
