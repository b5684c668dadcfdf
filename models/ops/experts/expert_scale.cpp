#include "models/ops/experts/expert_scale.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/take.h>
#include <ATen/ops/zeros.h>

#include "models/ops/gradient.h"

namespace packtrain {
namespace {

// float32 [T, k].
at::Tensor factors_of(const at::Tensor& experts, const Parameter& scale) {
  return at::take(scale.value.to(at::kFloat), experts.to(at::kLong));
}

}  // namespace

at::Tensor scale_by_expert(const at::Tensor& weights, const at::Tensor& experts,
                           const Parameter& scale) {
  return at::mul(weights, factors_of(experts, scale));
}

at::Tensor scale_by_expert_backward(const at::Tensor& grad, const at::Tensor& weights,
                                    const at::Tensor& experts, const Parameter& scale) {
  if (scale.grad.defined()) {
    const at::Tensor of_choices =
        at::zeros({experts.size(0), scale.value.size(0)}, grad.options())
            .scatter_(1, experts.to(at::kLong), at::mul(grad, weights));  // one writer each
    write_gradient(scale, of_choices.sum(at::IntArrayRef{0}));
  }
  return at::mul(grad, factors_of(experts, scale));
}

}  // namespace packtrain
