#include "models/ops/swiglu/swiglu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "models/ops/autograd.h"
#include "models/ops/swiglu/swiglu_cuda.h"

namespace packtrain {
namespace {

struct Halves {
  at::Tensor gate;
  at::Tensor up;
};

Halves halves(const at::Tensor& gate_up) {
  const std::int64_t inner = gate_up.size(1) / 2;
  return {gate_up.narrow(1, 0, inner), gate_up.narrow(1, inner, inner)};
}

}  // namespace

at::Tensor swiglu_forward(const at::Tensor& gate_up) {
  if (gate_up.is_cuda()) return swiglu_forward_cuda(gate_up);
  const auto [gate, up] = halves(gate_up);
  return at::silu(gate.to(at::kFloat)).mul_(up).to(gate_up.scalar_type());
}

at::Tensor swiglu_backward(const at::Tensor& grad_output, const at::Tensor& gate_up) {
  if (gate_up.is_cuda()) return swiglu_backward_cuda(grad_output, gate_up);
  const auto [gate, up] = halves(gate_up);
  at::Tensor grad = at::empty_like(gate_up);
  const auto [grad_gate, grad_up] = halves(grad);
  const at::Tensor wide = gate.to(at::kFloat);
  const at::Tensor logistic = at::sigmoid(wide);
  const at::Tensor silu = at::mul(wide, logistic);
  grad_up.copy_(at::mul(silu, grad_output));
  // s (1 + z (1 - s)) = s + silu - silu s
  at::Tensor slope = at::mul(silu, logistic).neg_().add_(silu).add_(logistic);
  grad_gate.copy_(slope.mul_(up).mul_(grad_output));
  return grad;
}

at::Tensor swiglu(const at::Tensor& gate_up) {
  return apply_operator({gate_up}, {.forward =
                                        [](const Tensors& inputs, Tensors& saved) {
                                          saved = {inputs[0]};
                                          return swiglu_forward(inputs[0]);
                                        },
                                    .backward =
                                        [](const Tensors& saved, const at::Tensor& grad_output) {
                                          return Tensors{swiglu_backward(grad_output, saved[0])};
                                        }});
}

}  // namespace packtrain
