#include "models/layers/recorded_altup.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>

#include <string>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/layers/declared_parameters.h"
#include "models/ops/gradient.h"

namespace packtrain {
namespace {

// Both operators with a router read these.
struct RecordedAltUp {
  AltUpParameters parameters;
  AltUpShape shape;
  RmsNormOptions norm;
  double clip = 0;

  bool trained = true;

  // Counts the products of rows with the router and with the weights of coefficients.
  void count(std::int64_t num_rows, std::int64_t num_coefficients, Operator& step) const {
    MultiplyAdds& sum = step.multiply_adds;
    (trained ? sum.of_rows : sum.of_frozen_rows) =
        num_rows * shape.num_copies * (shape.hidden + num_coefficients);
  }
};

RecordedAltUp recorded(const AltUpParameters& parameters, const AltUpShape& shape,
                       const AltUpOptions& options) {
  return {parameters,
          shape,
          {.epsilon = options.norm.epsilon, .weight_offset = options.norm.weight_offset},
          options.config.coefficient_clip,
          options.trained};
}

at::Tensor modalities_of(const OperatorContext& run, const RecordedAltUp& altup,
                         const at::Tensor& x) {
  return altup_modalities(
      x, {run.parameter(altup.parameters.router_norm), run.parameter(altup.parameters.router),
          altup.norm, run.options().gemm_timing});
}

// `accumulates`: another backward of the layer has written the gradients of the router.
at::Tensor modalities_backward(const OperatorContext& run, const RecordedAltUp& altup,
                               const at::Tensor& grad, const at::Tensor& x,
                               const at::Tensor& modalities, bool accumulates) {
  Parameter norm = run.parameter(altup.parameters.router_norm);
  Parameter weight = run.parameter(altup.parameters.router);
  norm.accumulate = norm.accumulate || accumulates;
  weight.accumulate = weight.accumulate || accumulates;
  return altup_modalities_backward(grad, x, modalities,
                                   {norm, weight, altup.norm, run.options().gemm_timing});
}

// A view of one copy [rows, H] of rows [rows, C H].
at::Tensor view_of_copy(const at::Tensor& rows, const AltUpShape& shape, std::int64_t index) {
  return rows.narrow(1, index * shape.hidden, shape.hidden);
}

}  // namespace

AltUpParameters declare_altup(OperatorTape& tape, const std::string& name, const AltUpShape& shape,
                              const AltUpOptions& options) {
  const std::int64_t copies = shape.num_copies;
  const double deviation = options.standard_deviation;
  AltUpParameters parameters;
  parameters.router_norm =
      declare_scale(tape, name + ".router_norm.weight", {shape.hidden}, options.norm.weight_offset);
  parameters.router =
      declare_weight(tape, name + ".router.weight", {copies, shape.hidden}, deviation);
  parameters.prediction =
      declare_weight(tape, name + ".prediction.weight", {copies * copies, copies}, deviation);
  parameters.correction =
      declare_weight(tape, name + ".correction.weight", {copies, copies}, deviation);
  parameters.output_scale = tape.parameter({name + ".output_scale",
                                            {shape.hidden},
                                            {Initialization::Kind::kZeros, 0.0},
                                            OptimizerGroup::kNoDecay});
  return parameters;
}

Value altup_predict(OperatorTape& tape, const std::string& name, Value rows,
                    const AltUpParameters& parameters, const AltUpShape& shape,
                    const AltUpOptions& options) {
  const ValueShape in = tape.shape(rows);
  const RecordedAltUp altup = recorded(parameters, shape, options);
  const Value y = tape.value(ValueKind::kNormOutput, name, in);
  const Value modalities = tape.value(ValueKind::kStatistics, name + ".modalities",
                                      {in.num_rows, shape.num_copies, c10::kFloat});
  Operator step;
  step.inputs = {rows};
  step.outputs = {y, modalities};
  step.needs = {rows, modalities};
  altup.count(in.num_rows, shape.num_copies * shape.num_copies, step);
  step.forward = [=](OperatorContext& run) {
    const at::Tensor all = run.get(rows);
    const at::Tensor routed = modalities_of(run, altup, altup_copy(all, shape, shape.active));
    run.set(y,
            altup_predict(all, routed, {run.parameter(parameters.prediction), altup.clip}, shape));
    run.set(modalities, routed);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor all = run.get(rows);
    const at::Tensor routed = run.get(modalities);
    const AltUpPredictGradients grads = altup_predict_backward(
        run.gradient(y), all, routed, {run.parameter(parameters.prediction), altup.clip}, shape);
    view_of_copy(grads.rows, shape, shape.active)
        .add_(modalities_backward(run, altup, grads.modalities,
                                  altup_copy(all, shape, shape.active), routed, true));
    run.add_gradient(rows, grads.rows);
  };
  tape.record(std::move(step));
  return y;
}

Value altup_correct(OperatorTape& tape, const std::string& name, Value predictions, Value activated,
                    const AltUpParameters& parameters, const AltUpShape& shape,
                    const AltUpOptions& options) {
  const ValueShape in = tape.shape(predictions);
  const RecordedAltUp altup = recorded(parameters, shape, options);
  const Value y = tape.value(ValueKind::kNormOutput, name, in);
  const Value modalities = tape.value(ValueKind::kStatistics, name + ".modalities",
                                      {in.num_rows, shape.num_copies, c10::kFloat});
  Operator step;
  step.inputs = {predictions, activated};
  step.outputs = {y, modalities};
  step.needs = {predictions, activated, modalities};
  altup.count(in.num_rows, shape.num_copies, step);
  step.forward = [=](OperatorContext& run) {
    const at::Tensor a = run.get(activated);
    const at::Tensor routed = modalities_of(run, altup, a);
    run.set(y, altup_correct(run.get(predictions), a, routed,
                             {run.parameter(parameters.correction), altup.clip}, shape));
    run.set(modalities, routed);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor a = run.get(activated);
    const at::Tensor routed = run.get(modalities);
    const at::Tensor grad = run.gradient(y);
    const AltUpCorrectGradients grads =
        altup_correct_backward_(grad, run.get(predictions), a, routed,
                                {run.parameter(parameters.correction), altup.clip}, shape);
    run.add_gradient(predictions, grad);
    run.add_gradient(activated, grads.activated.add(modalities_backward(
                                    run, altup, grads.modalities, a, routed, false)));
  };
  tape.record(std::move(step));
  return y;
}

std::vector<Value> altup_copies(OperatorTape& tape, const std::string& name, Value rows,
                                const AltUpShape& shape) {
  const ValueShape in = tape.shape(rows);
  std::vector<Value> copies;
  for (std::int64_t i = 0; i < shape.num_copies; ++i) {
    copies.push_back(tape.value(ValueKind::kNormOutput, name + "." + std::to_string(i),
                                {in.num_rows, shape.hidden, in.dtype}));
  }
  Operator step;
  step.inputs = {rows};
  step.outputs = copies;
  step.forward = [=](OperatorContext& run) {
    const at::Tensor all = run.get(rows);
    for (std::int64_t i = 0; i < shape.num_copies; ++i) {
      run.set(copies[static_cast<std::size_t>(i)], altup_copy(all, shape, i));
    }
  };
  step.backward = [=](OperatorContext& run) {
    std::vector<at::Tensor> grads;
    for (const Value copy : copies) {
      grads.push_back(run.gradient(copy));
      run.set_gradient(copy, at::Tensor());
    }
    run.add_gradient(rows, at::cat(grads, 1));
  };
  tape.record(std::move(step));
  return copies;
}

Value altup_copy(OperatorTape& tape, const std::string& name, Value rows, const AltUpShape& shape,
                 std::int64_t index, GradientMemory memory) {
  const ValueShape in = tape.shape(rows);
  const Value y = tape.value(ValueKind::kNormOutput, name, {in.num_rows, shape.hidden, in.dtype});
  Operator step;
  step.inputs = {rows};
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) { run.set(y, altup_copy(run.get(rows), shape, index)); };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    at::Tensor sum = run.gradient(rows);
    if (memory == GradientMemory::kShared) sum = sum.clone();
    view_of_copy(sum, shape, index).add_(grad);
    run.set_gradient(rows, sum);
  };
  tape.record(std::move(step));
  return y;
}

Value multiply_rows(OperatorTape& tape, const std::string& name, Value x, ParameterId scale) {
  const Value y = tape.value(ValueKind::kNormOutput, name, tape.shape(x));
  Operator step;
  step.inputs = step.needs = {x};
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    run.set(y, at::mul(run.get(x), run.parameter(scale).value));
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    const Parameter& parameter = run.parameter(scale);
    if (parameter.grad.defined()) write_gradient(parameter, column_products(grad, run.get(x)));
    run.add_gradient(x, at::mul(grad, parameter.value));
  };
  tape.record(std::move(step));
  return y;
}

Value altup_spread(OperatorTape& tape, const std::string& name, Value rows, Value branch,
                   const AltUpShape& shape) {
  const ValueShape in = tape.shape(rows);
  const std::int64_t others = shape.num_copies - 1;
  const Value y = tape.value(ValueKind::kProjection, name, in);
  const auto all_but_first = [=](const at::Tensor& all) {
    return all.view({in.num_rows, shape.num_copies, shape.hidden}).narrow(1, 1, others);
  };
  Operator step;
  step.inputs = {branch};
  step.residual = rows;
  step.outputs = {y};
  step.forward = [=](OperatorContext& run) {
    const at::Tensor sum = run.get(rows).clone();
    all_but_first(sum).add_(run.get(branch).unsqueeze(1));
    run.set(y, sum);
  };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    run.add_gradient(rows, grad);
    run.add_gradient(branch, all_but_first(grad).sum(at::IntArrayRef{1}));
  };
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
