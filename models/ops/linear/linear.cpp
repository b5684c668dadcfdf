#include "models/ops/linear/linear.h"

#include <ATen/ops/sum.h>

#include "models/ops/encoded_weight.h"
#include "models/ops/gradient.h"
#include "models/ops/linear/bias_gradient_cuda.h"
#include "models/ops/matmul/matmul.h"
#include "models/ops/nf4/nf4_gemm_cuda.h"

namespace packtrain {

void linear_backward_bias(const at::Tensor& grad_output, const Parameter& bias) {
  if (!bias.grad.defined()) return;
  if (grad_output.is_cuda() && grad_output.size(0) > 0) {
    bias_gradient_cuda(grad_output, bias);
  } else {
    write_gradient(bias, grad_output.sum(at::IntArrayRef{0}, /*keepdim=*/false, at::kFloat));
  }
}

at::Tensor linear_forward(const at::Tensor& x, const Parameter& weight, const Parameter* bias,
                          const GemmTiming& timing, const at::Tensor& residual, double scale) {
  if (scale == 1.0 && nf4_gemm_takes(x, weight, bias, residual))
    return nf4_gemm_forward_cuda(x, weight, bias, residual);
  decode_weight(weight);
  return gemm(
      x, weight.value.t(),
      {.addend = residual, .bias = bias != nullptr ? bias->value : at::Tensor(), .scale = scale},
      timing);
}

at::Tensor linear_backward_input(const at::Tensor& grad_output, const Parameter& weight,
                                 const GemmTiming& timing, const at::Tensor& sum, double scale) {
  if (scale == 1.0 && nf4_gemm_takes(grad_output, weight, nullptr, sum))
    return nf4_gemm_backward_cuda(grad_output, weight, sum);
  decode_weight(weight);
  return gemm(grad_output, weight.value, {.addend = sum, .scale = scale}, timing);
}

void linear_backward_weight(const at::Tensor& grad_output, const at::Tensor& x,
                            const Parameter& weight, const Parameter* bias,
                            const GemmTiming& timing, double scale) {
  write_gradient_gemm(weight, grad_output.t(), x, timing, scale);
  if (bias != nullptr) linear_backward_bias(grad_output, *bias);
}

}  // namespace packtrain
