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

namespace {

// cuBLAS multiplies bfloat16 into float32; elsewhere the operands are widened.
void write_mixed_mm(const Parameter& parameter, const at::Tensor& left, const at::Tensor& right) {
  at::Tensor grad = parameter.grad;
  const at::ScalarType type = grad.scalar_type();
  if (!left.is_cuda() || type != at::kFloat) {
    write_gradient_mm(parameter, left.to(type), right.to(type));
  } else if (parameter.accumulate) {
    at::addmm_out(grad, grad, left, right, type);
  } else {
    at::mm_out(grad, left, right, type);
  }
}

}  // namespace

void write_gradient_mm(const Parameter& parameter, const at::Tensor& left,
                       const at::Tensor& right) {
  if (!parameter.grad.defined()) {
    return;
  }
  at::Tensor grad = parameter.grad;
  if (grad.scalar_type() != left.scalar_type()) {
    write_mixed_mm(parameter, left, right);
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
