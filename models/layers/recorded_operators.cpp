#include "models/layers/recorded_operators.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <string>

#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

// The tensor that a backward writes its operator's recomputed output to. Undefined when no operator
// needs it.
at::Tensor awaited_output(const OperatorTape& tape, Value y, const at::Tensor& like) {
  return tape.is_recompute_requested(y) ? at::empty_like(like) : at::Tensor();
}

}  // namespace

Value norm(OperatorTape& tape, std::string_view name, Value x, const NormWeights& weights,
           const NormConfig& config) {
  const Value y = tape.value(ValueKind::kNormOutput, name);
  const Value statistics = tape.value(ValueKind::kStatistics, std::string(name) + ".statistics");
  OperatorTape::Operator step;
  step.outputs = {y, statistics};
  step.needs = {x, statistics};
  step.recomputes_output = true;
  step.forward = [=, &tape] {
    NormOutput output = norm_forward(tape.get(x), weights, config);
    tape.set(y, std::move(output.y));
    tape.set_all(statistics, std::move(output.statistics));
  };
  step.backward = [=, &tape] {
    const at::Tensor in = tape.get(x);
    const at::Tensor remade = awaited_output(tape, y, in);
    tape.set_gradient(x, norm_backward(tape.gradient(y), in, tape.get_all(statistics), weights,
                                       config, tape.gradient(x), remade));
    if (remade.defined()) tape.set(y, remade);
  };
  tape.record(std::move(step));
  return y;
}

Value linear(OperatorTape& tape, std::string_view name, Value x, const Parameter& weight,
             const Parameter* bias, std::optional<Value> residual) {
  const Value y = tape.value(ValueKind::kProjection, name);
  OperatorTape::Operator step;
  step.outputs = {y};
  step.needs = {x};
  step.forward = [=, &tape, &weight] {
    const at::Tensor added = residual ? tape.get(*residual) : at::Tensor();
    tape.set(y, linear_forward(tape.get(x), weight, bias, added));
  };
  step.backward = [=, &tape, &weight] {
    const at::Tensor grad = tape.gradient(y);
    if (residual) tape.add_gradient(*residual, grad);
    tape.set_gradient(x, linear_backward_input(grad, weight, tape.gradient(x)));
    tape.when_available(x, [=, &tape, &weight](const at::Tensor& in) {
      tape.run_or_defer_weight_grad(
          [=, &weight] { linear_backward_weight(grad, in, weight, bias); });
    });
  };
  tape.record(std::move(step));
  return y;
}

Value activation(OperatorTape& tape, std::string_view name, Value x, const Activation& activation) {
  const Value y = tape.value(ValueKind::kActivationOutput, name);
  OperatorTape::Operator step;
  step.outputs = {y};
  step.needs = {x};
  step.recomputes_output = true;
  step.forward = [=, &tape] { tape.set(y, activation_forward(tape.get(x), activation)); };
  step.backward = [=, &tape] {
    const at::Tensor grad = tape.gradient(y);
    const at::Tensor remade = awaited_output(tape, y, grad);
    tape.set_gradient(x, activation_backward(grad, tape.get(x), activation, remade));
    if (remade.defined()) tape.set(y, remade);
  };
  tape.record(std::move(step));
  return y;
}

Value add(OperatorTape& tape, std::string_view name, Value x, Value y, double scale) {
  const Value sum = tape.value(ValueKind::kProjection, name);
  OperatorTape::Operator step;
  step.outputs = {sum};
  step.forward = [=, &tape] { tape.set(sum, at::add(tape.get(x), tape.get(y), scale)); };
  step.backward = [=, &tape] {
    const at::Tensor grad = tape.gradient(sum);
    tape.add_gradient(x, grad);
    tape.add_gradient(y, scale == 1.0 ? grad : at::mul(grad, scale));
  };
  tape.record(std::move(step));
  return sum;
}

Value select_rows(OperatorTape& tape, std::string_view name, Value x, const at::Tensor& rows) {
  const Value y = tape.value(ValueKind::kProjection, name);
  const std::int64_t num_rows = tape.get(x).size(0);
  OperatorTape::Operator step;
  step.outputs = {y};
  step.forward = [=, &tape] { tape.set(y, at::index_select(tape.get(x), 0, rows)); };
  step.backward = [=, &tape] {
    const at::Tensor grad = tape.gradient(y);
    at::Tensor whole = at::zeros({num_rows, grad.size(1)}, grad.options());
    whole.index_copy_(0, rows.to(at::kLong), grad);  // rows are distinct: one writer each
    tape.add_gradient(x, whole);
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
