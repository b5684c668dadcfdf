#include "models/block/operator_context.h"

#include <ATen/ops/add.h>

#include <algorithm>

namespace packtrain {

OperatorContext::OperatorContext(std::span<const Parameter> parameters, const BlockContext& context)
    : parameters_(parameters.begin(), parameters.end()), block_context_(context) {}

void OperatorContext::replace_parameters(std::span<const Parameter> parameters) {
  std::ranges::copy(parameters, parameters_.begin());  // in place: deferred products refer to them
}

std::vector<at::Tensor> OperatorContext::get_all(Value v) {
  if (!entry(v).made) recompute(v);
  return entry(v).tensors;
}

void OperatorContext::set_all(Value v, std::vector<at::Tensor> tensors) {
  entry(v).tensors = std::move(tensors);
  entry(v).amax.reset();
  entry(v).made = true;
}

void OperatorContext::release(Value v) {
  entry(v).tensors.clear();
  entry(v).amax.reset();
  entry(v).made = false;
}

void OperatorContext::add_gradient(Value v, const at::Tensor& grad) {
  at::Tensor& sum = entry(v).gradient;
  sum = sum.defined() ? at::add(sum, grad) : grad;
  entry(v).gradient_amax.reset();
}

void OperatorContext::when_available(Value v, std::function<void(const at::Tensor&)> use) {
  if (!entry(v).made && backward_recomputes(v)) {
    entry(v).waiting.push_back(std::move(use));
    return;
  }
  use(get(v));
}

void OperatorContext::run_waiting_uses(Value v) {
  if (!is_recompute_requested(v)) return;
  for (const auto& use : std::exchange(entry(v).waiting, {})) use(get(v));
  release(v);
}

}  // namespace packtrain
