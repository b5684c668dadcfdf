#include "models/ops/mamba2/steps.h"

#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>

#include "models/ops/gradient.h"

namespace packtrain {
namespace {

at::Tensor biased(const at::Tensor& projected, const SsdStepParameters& parameters) {
  return at::add(projected.to(at::kFloat), parameters.bias.value.to(at::kFloat));
}

at::Tensor rates(const SsdStepParameters& parameters) {
  return at::exp(parameters.a_log.value.to(at::kFloat));
}

}  // namespace

SsdSteps ssd_steps_forward(const at::Tensor& projected, const SsdStepParameters& parameters) {
  const at::Tensor steps = at::softplus(biased(projected, parameters))
                               .clamp_(parameters.low, parameters.high)
                               .contiguous();
  return {steps, at::mul(steps, rates(parameters)).neg_()};
}

void ssd_steps_backward(const SsdSteps& grads, const at::Tensor& projected,
                        const SsdStepParameters& parameters, const at::Tensor& grad_projected) {
  const at::Tensor inner = biased(projected, parameters);
  const at::Tensor free = at::softplus(inner);
  const at::Tensor rate = rates(parameters);
  const at::Tensor decays = at::mul(at::clamp(free, parameters.low, parameters.high), rate).neg_();
  write_gradient(parameters.a_log, decays.mul_(grads.g).sum(0));
  const at::Tensor is_free = at::ge(free, parameters.low).logical_and_(free.le(parameters.high));
  const at::Tensor grad =
      at::sub(grads.steps, at::mul(grads.g, rate)).mul_(at::sigmoid(inner)).mul_(is_free);
  write_gradient(parameters.bias, grad.sum(0));
  grad_projected.copy_(grad);
}

}  // namespace packtrain
