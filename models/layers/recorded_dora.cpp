#include "models/layers/recorded_dora.h"

#include <utility>
#include <vector>

#include "models/ops/linear/dora.h"
#include "models/ops/linear/linear.h"

namespace packtrain {
namespace {

at::Tensor scale(OperatorContext& run, Value z, const LowRankUpdate& update,
                 const DoraTerms& terms) {
  const Parameter& weight = run.parameter(terms.weight);
  const Parameter* bias = run.find(terms.bias);
  const at::Tensor added = run.get(terms.residual);
  const GemmTiming& timing = run.options().gemm_timing;
  if (run.batch().without_adapter) {
    if (terms.fp8) return fp8_base_forward(run, *terms.fp8, bias, added).y;
    return linear_forward(run.get(terms.x), weight, bias, timing, added);
  }
  const at::Tensor factors = dora_factors(run.get(terms.norms).squeeze(0), update.modules(),
                                          parameters_of(run, update.magnitudes));
  const at::Tensor y = dora_scale_forward(run.get(z), factors, bias, added);
  const LoraDropout dropout = update.a.dropout(run);
  if (dropout.probability > 0) {
    dora_add_rest(y, run.get(terms.x), weight, update.modules(), dropout, timing);
  }
  return y;
}

// `grad`: of y.
void scale_backward(OperatorContext& run, Value z, const at::Tensor& grad,
                    const LowRankUpdate& update, const DoraTerms& terms) {
  const LoraModules& modules = update.modules();
  const std::vector<const Parameter*> magnitudes = parameters_of(run, update.magnitudes);
  if (terms.residual) run.add_gradient(*terms.residual, grad);
  if (const Parameter* bias = run.find(terms.bias)) linear_backward_bias(grad, *bias);
  const at::Tensor norms = run.get(terms.norms).squeeze(0);
  const at::Tensor rows = run.get(z);  // read by no other backward
  const at::Tensor sums =
      dora_scale_backward_in_place(grad, rows, dora_factors(norms, modules, magnitudes));
  dora_backward_magnitudes(sums, norms, modules, magnitudes);
  run.set_gradient(z, rows);
  const LoraDropout dropout = update.a.dropout(run);
  if (dropout.probability == 0) return;
  run.set_gradient(terms.x,
                   dora_rest_backward_input(grad, run.parameter(terms.weight), modules, dropout,
                                            run.options().gemm_timing, run.gradient(terms.x)));
}

}  // namespace

Value record_dora_norms(OperatorTape& tape, const std::string& name, std::int64_t num_rows,
                        ParameterId weight, const LowRankUpdate& update) {
  const Value norms =
      tape.value(ValueKind::kStatistics, name + ".norms", {1, num_rows, c10::kFloat});
  Operator step;
  step.outputs = {norms};
  step.forward = [=](OperatorContext& run) {
    if (run.batch().without_adapter) return run.set(norms, {});
    run.set(norms, dora_norms(run.parameter(weight), run.parameter(update.a.a), update.modules(),
                              parameters_of(run, update.b), run.options().gemm_timing)
                       .unsqueeze(0));
  };
  step.backward = [](OperatorContext& /*run*/) {};  // constants for all gradients
  tape.record(std::move(step));
  return norms;
}

Value record_dora_scale(OperatorTape& tape, const std::string& name, Value z,
                        const LowRankUpdate& update, const DoraTerms& terms) {
  const ValueShape shape = tape.shape(z);
  const Value y = tape.value(ValueKind::kScaled, name, shape);
  Operator step;
  step.inputs = {z, terms.norms, terms.x};
  step.residual = terms.residual;
  step.outputs = {y};
  step.needs = {z, terms.norms};
  step.multiply_adds.of_rows = shape.numel();
  step.forward = [=](OperatorContext& run) { run.set(y, scale(run, z, update, terms)); };
  step.backward = [=](OperatorContext& run) {
    scale_backward(run, z, run.gradient(y), update, terms);
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
