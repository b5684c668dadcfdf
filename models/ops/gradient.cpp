#include "models/ops/gradient.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>

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
                         const at::Tensor& right, const GemmTiming& timing, double scale) {
  if (!parameter.grad.defined()) {
    return;
  }
  gemm_out(parameter.grad, left, right,
           {.addend = parameter.accumulate ? parameter.grad : at::Tensor(), .scale = scale},
           timing);
}

void write_gradients(const std::vector<const Parameter*>& parameters,
                     const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> gradients;
  for (const Parameter* parameter : parameters) gradients.push_back(parameter->grad);
  if (parameters.front()->accumulate) {
    at::_foreach_add_(gradients, values);
  } else {
    at::_foreach_copy_(gradients, values);
  }
}

void write_zero_gradient(const Parameter& parameter) {
  if (parameter.grad.defined() && !parameter.accumulate) {
    parameter.grad.zero_();
  }
}

}  // namespace packtrain
