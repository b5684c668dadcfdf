#include "models/layers/recorded_xielu.h"

#include <utility>

#include "models/block/operator_context.h"
#include "models/ops/xielu/xielu.h"

namespace packtrain {
namespace {

// Initial values: those of transformers, before the functions that keep p and n positive.
constexpr double kInitialP = 0.8;
constexpr double kBeta = 0.5;
constexpr double kInitialN = 0.8 - kBeta;
constexpr double kEpsilon = -1e-6;

struct XieluIds {
  ParameterId alpha_p;
  ParameterId alpha_n;
  ParameterId beta;
  ParameterId epsilon;

  XieluParameters of(const OperatorContext& run) const {
    return {run.parameter(alpha_p), run.parameter(alpha_n), run.parameter(beta),
            run.parameter(epsilon)};
  }
};

ParameterId declare_number(OperatorTape& tape, std::string name,
                           const Initialization& initialization, bool trainable) {
  ParameterSpec spec{std::move(name), {1}, initialization, OptimizerGroup::kNoDecay};
  spec.trainable = trainable;
  spec.keep_float32 = true;
  return tape.parameter(spec);
}

XieluIds declare_xielu(OperatorTape& tape, const std::string& name) {
  const auto softplus_of = [](double value) {
    return Initialization{Initialization::Kind::kInverseSoftplus, 0, value, value};
  };
  const auto constant = [](double value) {
    return Initialization{Initialization::Kind::kConstant, 0, value, value};
  };
  return {declare_number(tape, name + ".alpha_p", softplus_of(kInitialP), true),
          declare_number(tape, name + ".alpha_n", softplus_of(kInitialN), true),
          declare_number(tape, name + ".beta", constant(kBeta), false),
          declare_number(tape, name + ".eps", constant(kEpsilon), false)};
}

}  // namespace

Value xielu(OperatorTape& tape, const std::string& name, const std::string& parameters, Value x,
            const ActivationNeighbours& neighbours) {
  const XieluIds ids = declare_xielu(tape, parameters);
  const ValueShape shape = tape.shape(x);
  const Value y = tape.value(ValueKind::kActivationOutput, name, shape);
  Operator step;
  step.inputs = {x};
  step.outputs = {y};
  step.needs = {x};
  step.recomputes_output = true;
  step.forward = [=](OperatorContext& run) { run.set(y, xielu_forward(run.get(x), ids.of(run))); };
  step.backward = [=](OperatorContext& run) {
    const at::Tensor grad = run.gradient(y);
    const at::Tensor rows = run.get(x);  // read by no other backward
    const bool recomputes = run.is_recompute_requested(y);
    xielu_backward_in_place(grad, rows, ids.of(run), recomputes);
    run.set_gradient(x, rows);
    if (recomputes) run.set(y, grad);
  };
  step.memory = activation_memory(tape, x, shape, neighbours);
  tape.record(std::move(step));
  return y;
}

}  // namespace packtrain
