#include "models/layers/recorded_operators.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"

namespace packtrain {
namespace {

// The tensor that a backward writes its operator's recomputed output to. Undefined when no operator
// needs it.
at::Tensor awaited_output(const OperatorContext& tape, Value y, const at::Tensor& like) {
  return tape.is_recompute_requested(y) ? at::empty_like(like) : at::Tensor();
}

}  // namespace

Value norm(OperatorTape& tape, const std::string& name, Value x, const NormConfig& config) {
  const ValueShape in = tape.shape(x);
  const NormParameters weights = declare_norm(tape, name, in.width, config);
  const Value y = tape.value(ValueKind::kNormOutput, name, in);
  const Value statistics = tape.value(ValueKind::kStatistics, name + ".statistics",
                                      {in.num_rows, num_statistics(config), c10::kFloat});
  Operator step;
  step.inputs = {x};
  step.outputs = {y, statistics};
  step.needs = {x, statistics};
  step.recomputes_output = true;
  step.forward = [=](OperatorContext& run) {
    NormOutput output = norm_forward(run.get(x), weights.of(run), config);
    run.set(y, std::move(output.y));
    run.set_all(statistics, std::move(output.statistics));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor rows = run.get(x);
    const at::Tensor again = awaited_output(run, y, rows);
    run.set_gradient(x, norm_backward(run.gradient(y), rows, run.get_all(statistics),
                                      weights.of(run), config, run.gradient(x), again));
    if (again.defined()) run.set(y, again);
  };
  tape.record(std::move(step));
  return y;
}

Value activation(OperatorTape& tape, const std::string& name, Value x, const Activation& activation,
                 bool may_peak) {
  const ValueShape in = tape.shape(x);
  const ValueShape out = {in.num_rows, activation.gated ? in.width / 2 : in.width, in.dtype};
  const Value y = tape.value(ValueKind::kActivationOutput, name, out);
  Operator step;
  step.inputs = {x};
  step.outputs = {y};
  step.needs = {x};
  step.recomputes_output = true;
  step.forward = [=](OperatorContext& run) {
    run.set(y, activation_forward(run.get(x), activation));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    const at::Tensor in = run.get(x);  // read by no other backward
    const bool recomputes = run.is_recompute_requested(y);
    activation_backward_in_place(grad, in, activation, recomputes);
    run.set_gradient(x, in);
    if (recomputes) run.set(y, grad);
  };
  if (may_peak) {
    const ValueKind kind = tape.kind(x);
    step.memory = [=](const MicroBatchShape&, const RecomputePolicy& policy) -> BackwardMemory {
      // Of layers that are recomputed whole the plan counts it itself.
      const bool is_again = !policy.keeps(kind) && policy.keeps(ValueKind::kProjection);
      // A saved one is freed when the products that read it have ended, before x is needed.
      const bool is_saved = policy.keeps(ValueKind::kActivationOutput) && !is_again;
      return {"MLP backward",
              {{"gradient of the MLP's activation", out.bytes()},
               {"input of the MLP's activation", is_again ? in.bytes() : 0},
               {"MLP's activation", is_saved ? out.bytes() : 0}}};
    };
  }
  tape.record(std::move(step));
  return y;
}

Value add(OperatorTape& tape, const std::string& name, Value x, Value y, double scale) {
  const Value sum = tape.value(ValueKind::kProjection, name, tape.shape(x));
  Operator step;
  step.inputs = {y};
  step.residual = x;
  step.outputs = {sum};
  step.forward = [=](OperatorContext& run) {
    run.set(sum, at::add(run.get(x), run.get(y), scale));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(sum);
    run.add_gradient(x, grad);
    run.add_gradient(y, scale == 1.0 ? grad : at::mul(grad, scale));
  };
  tape.record(std::move(step));
  return sum;
}

Value select_supervised_rows(OperatorTape& tape, const std::string& name, Value x) {
  const ValueShape in = tape.shape(x);
  const Value y =
      tape.value(ValueKind::kProjection, name, {tape.num_supervised_rows(), in.width, in.dtype});
  Operator step;
  step.inputs = {x};
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    run.set(y, at::index_select(run.get(x), 0, run.batch().loss_index));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    at::Tensor whole = at::zeros({in.num_rows, grad.size(1)}, grad.options());
    // Rows are distinct: one writer each.
    whole.index_copy_(0, run.batch().loss_index.to(at::kLong), grad);
    run.add_gradient(x, whole);
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
