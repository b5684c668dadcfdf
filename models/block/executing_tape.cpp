#include "models/block/executing_tape.h"

#include <ATen/ops/add.h>

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/device/trace_range.h"

namespace packtrain {

ExecutingTape::ExecutingTape(std::span<const Parameter> parameters, DeviceBatch& batch)
    : parameters_(parameters.begin(), parameters.end()), batch_(batch) {}

ParameterId ExecutingTape::parameter(const ParameterSpec& spec) {
  const bool matches = num_declared_ < parameters_.size() &&
                       parameters_[num_declared_].value.sizes() == at::IntArrayRef(spec.shape);
  if (!matches) {
    throw Error(ErrorCategory::kInternal,
                "parameter " + spec.name + " does not have the shape that its block declares");
  }
  return {static_cast<int>(num_declared_++)};
}

void ExecutingTape::set_parameters(std::span<const Parameter> parameters) {
  std::ranges::copy(parameters, parameters_.begin());  // in place: deferred products refer to them
}

Value ExecutingTape::input(const at::Tensor& x) {
  input_ = value(ValueKind::kInput, "input", {x.size(0), x.size(1), x.scalar_type()});
  entries_.resize(num_values());
  set(input_, x);
  return input_;
}

void ExecutingTape::record(Operator step) {
  entries_.resize(num_values());
  const int number = static_cast<int>(operators_.size());
  for (const Value output : step.outputs) entry(output).maker = number;
  for (const Value needed : step.needs) ++entry(needed).num_readers;
  operators_.push_back(std::move(step));
  const TraceRange range(name(operators_.back().outputs.front()));
  operators_.back().forward(*this);
}

void ExecutingTape::finish_forward(const RecomputePolicy& policy) {
  for (int id = 0; id < static_cast<int>(entries_.size()); ++id) {
    const ValueKind kind = this->kind({id});
    Entry& e = entry({id});
    const bool stays = kind == ValueKind::kInput || (e.num_readers > 0 && policy.keeps(kind));
    if (stays) continue;
    e.made = false;
    e.tensors.clear();
  }
}

at::Tensor ExecutingTape::backward(Value output, const at::Tensor& grad) {
  set_gradient(output, grad);
  for (auto step = operators_.rbegin(); step != operators_.rend(); ++step) {
    const Value main = step->outputs.front();
    const TraceRange range(name(main) + ".backward");
    if (entry(main).gradient.defined()) step->backward(*this);
    run_waiting_uses(main);
    entry(main).gradient = at::Tensor();
    for (const Value needed : step->needs) done_reading(needed);
  }
  return std::exchange(entry(input_).gradient, at::Tensor());
}

void ExecutingTape::add_gradient(Value v, const at::Tensor& grad) {
  at::Tensor& sum = entry(v).gradient;
  sum = sum.defined() ? at::add(sum, grad) : grad;
}

std::vector<at::Tensor> ExecutingTape::get_all(Value v) {
  if (!entry(v).made) operators_.at(static_cast<std::size_t>(entry(v).maker)).forward(*this);
  return entry(v).tensors;
}

void ExecutingTape::set_all(Value v, std::vector<at::Tensor> tensors) {
  entry(v).tensors = std::move(tensors);
  entry(v).made = true;
}

void ExecutingTape::release(Value v) {
  entry(v).tensors.clear();
  entry(v).made = false;
}

void ExecutingTape::when_available(Value v, std::function<void(const at::Tensor&)> use) {
  Entry& e = entry(v);
  if (!e.made && e.maker >= 0 && operators_[static_cast<std::size_t>(e.maker)].recomputes_output) {
    e.waiting.push_back(std::move(use));
    return;
  }
  use(get(v));
}

void ExecutingTape::run_waiting_uses(Value v) {
  if (!is_recompute_requested(v)) return;
  for (const auto& use : std::exchange(entry(v).waiting, {})) use(get(v));
  release(v);
}

void ExecutingTape::done_reading(Value v) {
  if (--entry(v).num_readers == 0 && kind(v) != ValueKind::kInput) release(v);
}

void ExecutingTape::run_or_defer_weight_grad(std::function<void()> product) {
  if (!defers_weight_grads_) return product();
  deferred_weight_grads_.push_back(std::move(product));
}

// Each product is destroyed after it has run, which frees its operands.
void ExecutingTape::flush_weight_grads() {
  const TraceRange range("deferred weight gradients");
  for (auto& product : deferred_weight_grads_) std::exchange(product, nullptr)();
  deferred_weight_grads_.clear();
}

std::vector<SavedActivation> ExecutingTape::saved() const {
  std::vector<SavedActivation> list;
  for (int id = 0; id < static_cast<int>(entries_.size()); ++id) {
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : entry({id}).tensors) {
      if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
    if (bytes > 0) list.push_back({name({id}), bytes});
  }
  return list;
}

}  // namespace packtrain
