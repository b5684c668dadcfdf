#include "models/ops/gradient.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

namespace packtrain {

void write_gradient(const Parameter& parameter, const at::Tensor& value) {
  if (!parameter.grad.defined()) {
    return;
  }
  if (parameter.accumulate) {
    parameter.grad.add_(value);
  } else {
    parameter.grad.copy_(value);
  }
}

void write_gradient_mm(const Parameter& parameter, const at::Tensor& left,
                       const at::Tensor& right) {
  if (!parameter.grad.defined()) {
    return;
  }
  at::Tensor grad = parameter.grad;
  if (grad.scalar_type() != left.scalar_type()) {
    write_gradient_mm(parameter, left.to(grad.scalar_type()), right.to(grad.scalar_type()));
    return;
  }
  if (parameter.accumulate) {
    grad.addmm_(left, right);
  } else {
    at::mm_out(grad, left, right);
  }
}

void write_zero_gradient(const Parameter& parameter) {
  if (parameter.grad.defined() && !parameter.accumulate) {
    parameter.grad.zero_();
  }
}

}  // namespace packtrain
