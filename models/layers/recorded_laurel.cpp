#include "models/layers/recorded_laurel.h"

#include <ATen/ops/mul.h>

#include <numbers>
#include <utility>

#include "models/block/operator_context.h"

namespace packtrain {
namespace {

constexpr double kLaurelFactor = 1 / std::numbers::sqrt2;

}  // namespace

Value laurel_sum(OperatorTape& tape, const std::string& name, Value stream,
                 const std::vector<Value>& branches) {
  const Value y = tape.value(ValueKind::kProjection, name, tape.shape(stream));
  Operator step;
  step.inputs = branches;
  step.residual = stream;
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    at::Tensor sum = run.get(stream).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    for (const Value branch : branches) sum.add_(run.get(branch));
    run.set(y, sum.mul_(kLaurelFactor).to(run.get(stream).scalar_type()));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = at::mul(run.gradient(y), kLaurelFactor);
    run.add_gradient(stream, grad);
    for (const Value branch : branches) run.add_gradient(branch, grad);
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
