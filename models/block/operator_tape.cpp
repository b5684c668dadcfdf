#include "models/block/operator_tape.h"

#include <ATen/ops/add.h>

#include <utility>

#include "framework/device/trace_range.h"

namespace packtrain {

RecomputePolicy RecomputePolicy::none() {
  return RecomputePolicy(~0U);
}

RecomputePolicy RecomputePolicy::selective() {
  return RecomputePolicy(~(bit(ValueKind::kNormOutput) | bit(ValueKind::kActivationOutput)));
}

RecomputePolicy RecomputePolicy::full() {
  return RecomputePolicy(bit(ValueKind::kInput));
}

OperatorTape::OperatorTape(std::span<const Parameter> parameters)
    : parameters_(parameters.begin(), parameters.end()) {}

Value OperatorTape::value(ValueKind kind, std::string_view name) {
  Entry made;
  made.kind = kind;
  made.name = name;
  entries_.push_back(std::move(made));
  return {static_cast<int>(entries_.size()) - 1};
}

Value OperatorTape::input(const at::Tensor& x) {
  input_ = value(ValueKind::kInput, "input");
  set(input_, x);
  return input_;
}

void OperatorTape::record(Operator step) {
  const int number = static_cast<int>(operators_.size());
  for (const Value output : step.outputs) entry(output).maker = number;
  for (const Value needed : step.needs) ++entry(needed).num_readers;
  operators_.push_back(std::move(step));
  const TraceRange range(entry(operators_.back().outputs.front()).name);
  operators_.back().forward();
}

void OperatorTape::finish_forward(const RecomputePolicy& policy) {
  for (Entry& e : entries_) {
    const bool stays = e.kind == ValueKind::kInput || (e.num_readers > 0 && policy.keeps(e.kind));
    if (stays) continue;
    e.made = false;
    e.tensors.clear();
  }
}

at::Tensor OperatorTape::backward(Value output, const at::Tensor& grad) {
  set_gradient(output, grad);
  for (auto step = operators_.rbegin(); step != operators_.rend(); ++step) {
    const Value main = step->outputs.front();
    const TraceRange range(entry(main).name + ".backward");
    if (entry(main).gradient.defined()) step->backward();
    run_waiting_uses(main);
    entry(main).gradient = at::Tensor();
    for (const Value needed : step->needs) done_reading(needed);
  }
  return std::exchange(entry(input_).gradient, at::Tensor());
}

void OperatorTape::add_gradient(Value v, const at::Tensor& grad) {
  at::Tensor& sum = entry(v).gradient;
  sum = sum.defined() ? at::add(sum, grad) : grad;
}

std::vector<at::Tensor> OperatorTape::get_all(Value v) {
  if (!entry(v).made) operators_.at(static_cast<std::size_t>(entry(v).maker)).forward();
  return entry(v).tensors;
}

void OperatorTape::set_all(Value v, std::vector<at::Tensor> tensors) {
  entry(v).tensors = std::move(tensors);
  entry(v).made = true;
}

void OperatorTape::release(Value v) {
  entry(v).tensors.clear();
  entry(v).made = false;
}

void OperatorTape::when_available(Value v, std::function<void(const at::Tensor&)> use) {
  Entry& e = entry(v);
  if (!e.made && e.maker >= 0 && operators_[static_cast<std::size_t>(e.maker)].recomputes_output) {
    e.waiting.push_back(std::move(use));
    return;
  }
  use(get(v));
}

void OperatorTape::run_waiting_uses(Value v) {
  if (!is_recompute_requested(v)) return;
  for (const auto& use : std::exchange(entry(v).waiting, {})) use(get(v));
  release(v);
}

void OperatorTape::done_reading(Value v) {
  if (--entry(v).num_readers == 0 && entry(v).kind != ValueKind::kInput) release(v);
}

void OperatorTape::run_or_defer_weight_grad(std::function<void()> product) {
  if (!defers_weight_grads_) return product();
  deferred_weight_grads_.push_back(std::move(product));
}

// Each product is destroyed after it has run, which frees its operands.
void OperatorTape::flush_weight_grads() {
  const TraceRange range("gradients put off");
  for (auto& product : deferred_weight_grads_) std::exchange(product, nullptr)();
  deferred_weight_grads_.clear();
}

std::vector<SavedActivation> OperatorTape::saved() const {
  std::vector<SavedActivation> list;
  for (const Entry& e : entries_) {
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : e.tensors) {
      if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
    if (bytes > 0) list.push_back({e.name, bytes});
  }
  return list;
}

}  // namespace packtrain
