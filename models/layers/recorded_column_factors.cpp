#include "models/layers/recorded_column_factors.h"

#include <algorithm>
#include <utility>

#include "models/block/operator_context.h"

namespace packtrain {
Value multiply_columns(OperatorTape& tape, const std::string& name, Value x,
                       const std::vector<ColumnFactor>& factors) {
  if (std::ranges::all_of(factors, [](const ColumnFactor& one) { return one.factor == 1; })) {
    return x;
  }
  const Value y = tape.value(ValueKind::kProjection, name, tape.shape(x));
  Operator step;
  step.inputs = {x};
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    at::Tensor rows = run.get(x);
    multiply_columns_(rows, factors);
    run.set(y, std::move(rows));
    run.release(x);
  };
  step.backward = [=](OperatorContext& run) {
    at::Tensor grad = run.gradient(y);  // no other value has this tensor
    multiply_columns_(grad, factors);
    run.set_gradient(x, std::move(grad));
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
