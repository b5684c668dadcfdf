#include "models/ops/experts/row_gate.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>

#include "models/ops/gradient.h"
#include "models/ops/matmul/matmul.h"

namespace packtrain {
namespace {

// Float32 factors, rounded once to y's dtype.
at::Tensor scaled(const at::Tensor& y, const at::Tensor& gate) {
  at::Tensor product = at::empty_like(y);
  return at::mul_out(product, y, gate);
}

}  // namespace

at::Tensor row_gate(const at::Tensor& x, const Parameter& weight) {
  const at::Tensor logit = at::empty({x.size(0), 1}, x.options().dtype(at::kFloat));
  gemm_out(logit, x, weight.value.t());
  return at::sigmoid(logit);
}

at::Tensor row_gate_forward(const at::Tensor& gate, const at::Tensor& y,
                            const at::Tensor& residual) {
  at::Tensor out = scaled(y, gate);
  return residual.defined() ? out.add_(residual) : out;
}

at::Tensor row_gate_backward_logit(const at::Tensor& grad_output, const at::Tensor& gate,
                                   const at::Tensor& y) {
  const at::Tensor dot =
      at::mul(grad_output, y).sum(at::IntArrayRef{1}, /*keepdim=*/true, at::kFloat);
  return dot.mul_(gate).mul_(at::rsub(gate, 1.0));
}

at::Tensor row_gate_backward(const at::Tensor& grad_output, const at::Tensor& gate) {
  return scaled(grad_output, gate);
}

at::Tensor row_gate_backward_input(const at::Tensor& grad_logit, const Parameter& weight,
                                   const at::Tensor& sum) {
  const at::Tensor grad = at::mul(grad_logit, weight.value);
  return (sum.defined() ? at::add(grad, sum) : grad).to(weight.value.scalar_type());
}

void row_gate_backward_weight(const at::Tensor& grad_logit, const at::Tensor& x,
                              const Parameter& weight) {
  if (!weight.grad.defined()) return;
  write_gradient(weight, at::mul(x, grad_logit).sum(at::IntArrayRef{0}, /*keepdim=*/true));
}

}  // namespace packtrain
