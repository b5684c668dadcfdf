// The gate of a shared expert, recorded on the block's tape.
#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/layers/recorded_experts.h"
#include "models/ops/experts/shared_expert_gate.h"

namespace packtrain {

Value shared_expert_gate(OperatorTape& tape, const std::string& name, Value x, Value y,
                         double standard_deviation, std::optional<Value> residual) {
  const ValueShape in = tape.shape(x);
  const ParameterId id =
      declare_weight(tape, name + "_gate.weight", {1, in.width}, standard_deviation);
  const Value out = tape.value(ValueKind::kProjection, name, in);
  const Value gate =
      tape.value(ValueKind::kStatistics, name + ".gate", {in.num_rows, 1, c10::kFloat});
  Operator step;
  step.inputs = {x, y};
  step.residual = residual;
  step.outputs = {out, gate};
  step.needs = {x, y, gate};
  step.multiply_adds.of_rows = in.numel();
  step.forward = [=](OperatorContext& run) {
    const at::Tensor s =
        shared_expert_gate(run.get(x), run.parameter(id), run.options().gemm_timing);
    run.set(out, shared_expert_gate_forward(s, run.get(y), run.get(residual)));
    run.set(gate, s);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(out);
    const at::Tensor s = run.get(gate);
    const Parameter& weight = run.parameter(id);
    if (residual) run.add_gradient(*residual, grad);
    const at::Tensor grad_logit = shared_expert_gate_backward_logit(grad, s, run.get(y));
    run.set_gradient(y, shared_expert_gate_backward(grad, s));
    run.set_gradient(x, shared_expert_gate_backward_input(grad_logit, weight, run.gradient(x)));
    run.when_available(x,
                       [=, &weight, &timing = run.options().gemm_timing](const at::Tensor& rows) {
                         shared_expert_gate_backward_weight(grad_logit, rows, weight, timing);
                       });
  };
  tape.record(std::move(step));
  return out;
}

}  // namespace packtrain
