#include "models/block/executing_tape.h"

#include <ranges>
#include <utility>

#include "framework/core/error.h"
#include "framework/device/trace_range.h"

namespace packtrain {

ExecutingTape::ExecutingTape(std::span<const Parameter> parameters, const BlockContext& context)
    : OperatorContext(parameters, context) {}

ParameterId ExecutingTape::parameter(const ParameterSpec& spec) {
  const bool matches = num_declared_ < parameters().size() &&
                       parameters()[num_declared_].value.sizes() == at::IntArrayRef(spec.shape);
  if (!matches) {
    throw Error(ErrorCategory::kInternal,
                "parameter " + spec.name + " does not have the shape that its block declares");
  }
  return {static_cast<int>(num_declared_++)};
}

void ExecutingTape::track_values() {
  resize_values(num_values());
  uses_.resize(num_values());
}

Value ExecutingTape::input(const at::Tensor& x) {
  input_ = value(ValueKind::kInput, "input", {x.size(0), x.size(1), x.scalar_type()});
  track_values();
  set(input_, x);
  return input_;
}

at::Tensor ExecutingTape::take_input() {
  at::Tensor x = tensors(input_).front();
  release(input_);
  return x;
}

void ExecutingTape::record(Operator step) {
  track_values();
  const int number = static_cast<int>(operators_.size());
  for (const Value output : step.outputs) use(output).maker = number;
  for (const Value needed : step.needs) ++use(needed).num_readers;
  operators_.push_back(std::move(step));
  const TraceRange range(name(operators_.back().outputs.front()));
  operators_.back().forward(*this);
}

void ExecutingTape::finish_forward(const RecomputePolicy& policy) {
  for (int id = 0; id < static_cast<int>(uses_.size()); ++id) {
    const Value v{id};
    const bool stays =
        kind(v) == ValueKind::kInput || (use(v).num_readers > 0 && policy.keeps(kind(v)));
    if (!stays) release(v);
  }
}

at::Tensor ExecutingTape::backward(Value output, const at::Tensor& grad,
                                   std::span<const Parameter> parameters) {
  replace_parameters(parameters);
  set_gradient(output, grad);
  for (const Operator& step : std::views::reverse(operators_)) {
    const Value main = step.outputs.front();
    const TraceRange range(name(main) + ".backward");
    if (gradient(main).defined()) step.backward(*this);
    run_waiting_uses(main);
    set_gradient(main, at::Tensor());
    for (const Value needed : step.needs) done_reading(needed);
  }
  at::Tensor of_input = gradient(input_);
  set_gradient(input_, at::Tensor());
  return of_input;
}

void ExecutingTape::recompute(Value v) {
  operators_.at(static_cast<std::size_t>(use(v).maker)).forward(*this);
}

bool ExecutingTape::backward_recomputes(Value v) const {
  const int maker = use(v).maker;
  return maker >= 0 && operators_[static_cast<std::size_t>(maker)].recomputes_output;
}

void ExecutingTape::done_reading(Value v) {
  if (--use(v).num_readers == 0 && kind(v) != ValueKind::kInput) release(v);
}

std::vector<SavedActivation> ExecutingTape::saved() const {
  std::vector<SavedActivation> list;
  for (int id = 0; id < static_cast<int>(uses_.size()); ++id) {
    std::int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors({id})) {
      if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
    if (bytes > 0) list.push_back({name({id}), bytes});
  }
  return list;
}

}  // namespace packtrain
