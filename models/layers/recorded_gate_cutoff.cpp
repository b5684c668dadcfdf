#include "models/layers/recorded_gate_cutoff.h"

#include <utility>

#include "models/block/operator_context.h"
#include "models/ops/gate_cutoff/gate_cutoff.h"

namespace packtrain {

Value cut_gates(OperatorTape& tape, const std::string& name, Value x, double quantile) {
  const Value y = tape.value(ValueKind::kScaled, name, tape.shape(x));
  Operator step;
  step.inputs = step.needs = {x};
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    run.set(y, gate_cutoff_forward(run.get(x), quantile));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);  // the activation's, no other value has this tensor
    gate_cutoff_backward_(grad, run.get(x), quantile);
    run.set_gradient(x, grad);
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
