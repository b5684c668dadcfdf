#include "models/block/executing_tape.h"

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
  for (const Value input : step.inputs) use(input).forward_readers.push_back(number);
  if (step.residual) use(*step.residual).forward_readers.push_back(number);
  operators_.push_back(std::move(step));
}

bool ExecutingTape::stays(Value v, const RecomputePolicy* policy) const {
  if (kind(v) == ValueKind::kInput) return true;
  return policy != nullptr && use(v).num_readers > 0 && policy->keeps(kind(v));
}

std::vector<std::size_t> ExecutingTape::last_uses() const {
  std::vector<std::size_t> last(uses_.size(), 0);
  for (std::size_t number = 0; number < operators_.size(); ++number) {
    const Operator& step = operators_[number];
    for (const auto* values : {&step.inputs, &step.outputs}) {
      for (const Value v : *values) last[static_cast<std::size_t>(v.id)] = number;
    }
    if (step.residual) last[static_cast<std::size_t>(step.residual->id)] = number;
  }
  return last;
}

at::Tensor ExecutingTape::forward(Value output, const RecomputePolicy* policy) {
  const std::vector<std::size_t> last = last_uses();
  at::Tensor y;
  in_forward_ = true;
  policy_ = policy;
  for (std::size_t number = 0; number < operators_.size(); ++number) {
    const TraceRange range(name(operators_[number].outputs.front()));
    operators_[number].forward(*this);
    for (std::size_t id = 0; id < last.size(); ++id) {
      const Value v{static_cast<int>(id)};
      if (last[id] != number) continue;
      if (v == output) y = get(v);
      if (!stays(v, policy)) release(v);
    }
  }
  in_forward_ = false;
  policy_ = nullptr;
  return y;
}

at::Tensor ExecutingTape::backward(Value output, const at::Tensor& grad,
                                   std::span<const Parameter> parameters) {
  replace_parameters(parameters);
  set_gradient(output, grad);
  for (in_backward_ = static_cast<int>(operators_.size()); in_backward_-- > 0;) {
    const Operator& step = operators_[static_cast<std::size_t>(in_backward_)];
    const Value main = step.outputs.front();
    const TraceRange range(name(main) + ".backward");
    if (gradient(main).defined()) step.backward(*this);
    run_waiting_uses(main);
    set_gradient(main, at::Tensor());
    for (const Value needed : step.needs) done_reading(needed);
    release_unread();
  }
  at::Tensor of_input = gradient(input_);
  set_gradient(input_, at::Tensor());
  return of_input;
}

void ExecutingTape::recompute(Value v) {
  if (in_forward_) {
    throw Error(ErrorCategory::kInternal,
                "the forward of an operator reads '" + name(v) + "', which it does not declare");
  }
  const Operator& step = operators_.at(static_cast<std::size_t>(use(v).maker));
  step.forward(*this);
  for (const Value input : step.inputs) release_if_unread(input);
  if (step.residual) release_if_unread(*step.residual);
}

bool ExecutingTape::backward_recomputes(Value v) const {
  const int maker = use(v).maker;
  return maker >= 0 && operators_[static_cast<std::size_t>(maker)].recomputes_output;
}

void ExecutingTape::done_reading(Value v) {
  if (--use(v).num_readers == 0 && kind(v) != ValueKind::kInput) release(v);
}

// Only the forward of others reads it.
bool ExecutingTape::is_unread(Value v) const {
  return is_available(v) && use(v).num_readers <= 0 && kind(v) != ValueKind::kInput;
}

void ExecutingTape::release_if_unread(Value v) {
  if (!is_unread(v)) return;
  for (const int reader : use(v).forward_readers) {
    const Value main = operators_[static_cast<std::size_t>(reader)].outputs.front();
    if (reader < in_backward_ && !is_available(main)) return;
  }
  release(v);
}

void ExecutingTape::release_unread() {
  for (int id = 0; id < static_cast<int>(uses_.size()); ++id) {
    if (is_unread({id})) release({id});
  }
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
