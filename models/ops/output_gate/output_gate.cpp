#include "models/ops/output_gate/output_gate.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>
#include <c10/util/StringUtil.h>

#include "framework/core/error.h"

namespace packtrain {
namespace {

void check_output_gate(const at::Tensor& x, const at::Tensor& z) {
  const bool fits = x.dim() == 2 && x.sizes() == z.sizes() && x.scalar_type() == z.scalar_type();
  if (fits) return;
  throw Error(ErrorCategory::kInternal, c10::str("output gate: got x ", x.sizes(), " and z ",
                                                 z.sizes(), ", wanted both [T, W]"));
}

}  // namespace

at::Tensor output_gate_forward(const at::Tensor& x, const at::Tensor& z) {
  check_output_gate(x, z);
  if (x.is_cuda()) return output_gate_forward_cuda(x, z);
  return at::mul(x.to(at::kFloat), at::sigmoid(z.to(at::kFloat))).to(x.scalar_type());
}

at::Tensor output_gate_backward(const at::Tensor& grad_output, const at::Tensor& x,
                                const at::Tensor& z, const at::Tensor& grad_z,
                                const at::Tensor& recomputed_output) {
  check_output_gate(x, z);
  if (x.is_cuda()) {
    return output_gate_backward_cuda(grad_output, x, z, grad_z, recomputed_output);
  }
  const at::Tensor s = at::sigmoid(z.to(at::kFloat));
  const at::Tensor dx = at::mul(grad_output.to(at::kFloat), s);
  const at::Tensor y = at::mul(x.to(at::kFloat), s);
  grad_z.copy_(at::rsub(s, 1.0).mul_(y).mul_(grad_output));
  if (recomputed_output.defined()) recomputed_output.copy_(y);
  return dx.to(x.scalar_type());
}

}  // namespace packtrain
