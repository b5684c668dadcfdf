#include "models/ops/experts/shared_expert_gate.h"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>

#include "models/ops/experts/permute.h"
#include "models/ops/gradient.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {

at::Tensor shared_expert_gate(const at::Tensor& x, const Parameter& weight,
                              const GemmTiming& timing) {
  const at::Tensor logit = at::empty({x.size(0), 1}, x.options().dtype(at::kFloat));
  gemm_out(logit, x, weight.value.t(), {}, timing);
  return at::sigmoid(logit);
}

at::Tensor shared_expert_gate_forward(const at::Tensor& gate, const at::Tensor& y,
                                      const at::Tensor& residual) {
  return unpermute_sum(y, /*places=*/{}, gate, residual);
}

at::Tensor shared_expert_gate_backward_logit(const at::Tensor& grad_output, const at::Tensor& gate,
                                             const at::Tensor& y) {
  const at::Tensor dot = grad_routing_weight(grad_output, y, /*places=*/{}, /*divisors=*/{});
  return dot.mul_(gate).mul_(at::rsub(gate, 1.0));
}

at::Tensor shared_expert_gate_backward(const at::Tensor& grad_output, const at::Tensor& gate) {
  return permute_rows(grad_output, /*places=*/{}, gate);
}

at::Tensor shared_expert_gate_backward_input(const at::Tensor& grad_logit, const Parameter& weight,
                                             const at::Tensor& sum) {
  const at::Tensor factor = grad_logit.to(weight.value.scalar_type());
  return sum.defined() ? at::addcmul(sum, factor, weight.value) : at::mul(factor, weight.value);
}

void shared_expert_gate_backward_weight(const at::Tensor& grad_logit, const at::Tensor& x,
                                        const Parameter& weight, const GemmTiming& timing) {
  write_gradient_gemm(weight, grad_logit.to(x.scalar_type()).t(), x, timing);
}

}  // namespace packtrain
