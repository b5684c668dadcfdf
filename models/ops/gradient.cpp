#include "models/ops/gradient.h"

#include "models/ops/matmul/matmul.h"

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

void write_gradient_gemm(const Parameter& parameter, const at::Tensor& left,
                         const at::Tensor& right, const GemmTiming& timing) {
  if (!parameter.grad.defined()) {
    return;
  }
  gemm_out(parameter.grad, left, right,
           {.addend = parameter.accumulate ? parameter.grad : at::Tensor()}, timing);
}

void write_zero_gradient(const Parameter& parameter) {
  if (parameter.grad.defined() && !parameter.accumulate) {
    parameter.grad.zero_();
  }
}

}  // namespace packtrain
