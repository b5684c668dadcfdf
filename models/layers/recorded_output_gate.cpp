#include "models/layers/recorded_output_gate.h"

#include <ATen/ops/empty_like.h>

#include <utility>

#include "models/block/operator_context.h"
#include "models/ops/output_gate/output_gate.h"

namespace packtrain {

Value gated_output(OperatorTape& tape, const std::string& name, Value y, Value projection) {
  const ValueShape out = tape.shape(y);
  const Value gated = tape.value(ValueKind::kActivationOutput, name + ".gated", out);
  const auto gate_of = [width = out.width](const at::Tensor& rows) {
    return rows.narrow(1, 0, width);
  };
  Operator step;
  step.inputs = {y, projection};
  step.outputs = {gated};
  step.needs = {y, projection};
  step.recomputes_output = true;
  step.forward = [=](OperatorContext& run) {
    run.set(gated, output_gate_forward(run.get(y), gate_of(run.get(projection))));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor mixed = run.get(y);
    const at::Tensor rows = run.get(projection);
    const bool recomputes = run.is_recompute_requested(gated);
    const at::Tensor again = recomputes ? at::empty_like(mixed) : at::Tensor();
    // Attention's backward writes the other columns.
    const at::Tensor whole = at::empty_like(rows);
    run.set_gradient(
        y, output_gate_backward(run.gradient(gated), mixed, gate_of(rows), gate_of(whole), again));
    run.set_gradient(projection, whole);
    if (recomputes) run.set(gated, again);
  };
  tape.record(std::move(step));
  return gated;
}

}  // namespace packtrain
