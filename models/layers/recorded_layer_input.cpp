#include "models/layers/recorded_layer_input.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "framework/core/error.h"
#include "models/block/operator_context.h"

namespace packtrain {
namespace {

at::Tensor rows_of_layer(const OperatorContext& run, const LayerInputColumns& columns,
                         bool supervised) {
  const SharedRows& inputs = run.batch().state.layer_inputs;
  if (!inputs.rows.defined()) {
    throw Error(ErrorCategory::kInternal, "a layer reads inputs that no embedding has made");
  }
  const at::Tensor part = inputs.rows.narrow(1, columns.begin, columns.width);
  return supervised ? at::index_select(part, 0, run.batch().loss_index) : part;
}

// The columns of layers are distinct, and each layer writes its own.
void write_gradient_of_layer(const OperatorContext& run, const LayerInputColumns& columns,
                             bool supervised, const at::Tensor& grad) {
  SharedRows& inputs = run.batch().state.layer_inputs;
  if (!inputs.gradient.defined()) inputs.gradient = at::zeros_like(inputs.rows);
  const at::Tensor part = inputs.gradient.narrow(1, columns.begin, columns.width);
  if (supervised) {
    part.index_copy_(0, run.batch().loss_index.to(at::kLong), grad);
  } else {
    part.copy_(grad);
  }
}

}  // namespace

Value with_layer_input(OperatorTape& tape, const std::string& name, Value gate,
                       const LayerInputColumns& columns) {
  const ValueShape in = tape.shape(gate);
  const Value both =
      tape.value(ValueKind::kProjection, name, {in.num_rows, 2 * columns.width, in.dtype});
  const bool supervised = in.num_rows != tape.num_rows();
  Operator step;
  step.inputs = {gate};
  step.outputs = {both};
  step.forward = [=](OperatorContext& run) {
    run.set(both, at::cat({run.get(gate), rows_of_layer(run, columns, supervised)}, 1));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(both);
    write_gradient_of_layer(run, columns, supervised, grad.narrow(1, columns.width, columns.width));
    run.set_gradient(gate, grad.narrow(1, 0, columns.width).contiguous());
  };
  tape.record(std::move(step));
  return both;
}

Value scaled_by_constant(OperatorTape& tape, const std::string& name, Value x) {
  ParameterSpec spec{name, {1}, {Initialization::Kind::kOnes, 0.0}, OptimizerGroup::kNoDecay};
  spec.trainable = false;
  const ParameterId factor = tape.parameter(spec);
  const Value y = tape.value(ValueKind::kProjection, name, tape.shape(x));
  Operator step;
  step.inputs = {x};
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    run.set(y, at::mul(run.get(x), run.parameter(factor).value));
  };
  step.backward = [=](OperatorContext& run) {
    run.add_gradient(x, at::mul(run.gradient(y), run.parameter(factor).value));
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
