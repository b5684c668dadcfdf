// Runs blocks of a shape that no family has on the tape. Gradients are equal under every policy.
#include "models/block/executing_tape.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/block/shape_tape.h"
#include "models/layers/recorded_operators.h"
#include "tests/models/cases.h"

namespace packtrain {
namespace {

constexpr std::int64_t kWidth = 24;
constexpr double kEpsilon = 1e-3;

class Tapes : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Tapes, testing::ValuesIn(operator_cases()), case_name);

// One norm read by two branches, both added to the input; the second branch is gated.
Value parallel_branches(OperatorTape& tape, Value x) {
  const Value normed = norm(tape, "norm", x, {.epsilon = kEpsilon});
  const Value first = linear(tape, "first", normed, {.width = kWidth}, x);
  const Value gate_up = linear(tape, "gate_up", normed, {.width = 2 * kWidth});
  const Value gated = activation(tape, "gated", gate_up, {ActivationKind::kSilu, true});
  return linear(tape, "down", gated, {.width = kWidth}, first);
}

at::Tensor reference(const at::Tensor& x, const std::vector<at::Tensor>& w) {
  const at::Tensor normed = x * at::rsqrt((x * x).mean(at::IntArrayRef{1}, true) + kEpsilon) * w[0];
  const at::Tensor gate_up = at::matmul(normed, w[2].t());
  const at::Tensor gate = gate_up.narrow(1, 0, kWidth);
  const at::Tensor gated = gate * at::sigmoid(gate) * gate_up.narrow(1, kWidth, kWidth);
  return x + at::matmul(normed, w[1].t()) + at::matmul(gated, w[3].t());
}

std::vector<Parameter> some_parameters(const OperatorCase& on) {
  return {random_parameter(on, {kWidth}, "norm"), random_parameter(on, {kWidth, kWidth}, "first"),
          random_parameter(on, {2 * kWidth, kWidth}, "gate_up"),
          random_parameter(on, {kWidth, kWidth}, "down")};
}

TEST(ShapeTapes, ShapesStayWhereTheyAreWhenValuesAreAdded) {
  ShapeTape tape({.num_rows = 3});
  const Value x = tape.input(kWidth);
  const ValueShape& shape = tape.shape(x);
  for (int i = 0; i < 1000; ++i) tape.value(ValueKind::kProjection, "y", shape);
  EXPECT_EQ(&tape.shape(x), &shape);
}

TEST_P(Tapes, GradientsOfSeveralUsesAreAddedUnderEveryPolicy) {
  const OperatorCase& on = GetParam();
  for (const RecomputePolicy policy :
       {RecomputePolicy::none(), RecomputePolicy::selective(), RecomputePolicy::full()}) {
    const std::vector<Parameter> parameters = some_parameters(on);
    const at::Tensor x = random_tensor(on, {37, kWidth}, "x");
    DeviceBatch batch;
    const OperatorOptions options;
    ExecutingTape tape(parameters, {batch, BlockMode::kTrain, options});
    const Value y = parallel_branches(tape, tape.input(x));
    const at::Tensor output = tape.forward(y, &policy);

    std::vector<at::Tensor> leaves = {reference_leaf(x)};
    std::vector<at::Tensor> weights;
    for (const Parameter& p : parameters) weights.push_back(reference_leaf(p.value));
    leaves.insert(leaves.end(), weights.begin(), weights.end());
    const at::Tensor want = reference(leaves[0], weights);
    expect_close(output, want, on.tolerance, "output");
    const at::Tensor grad = random_tensor(on, want.sizes(), "grad");
    const auto wanted = torch::autograd::grad({want}, leaves, {grad.to(at::kCPU, at::kDouble)});
    // Several roundings to bfloat16 on the way.
    const double tolerance = on.dtype == at::kFloat ? on.tolerance : 2 * on.tolerance;
    expect_close(tape.backward(y, grad, parameters), wanted[0], tolerance, "d x");
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      expect_close(parameters[i].grad, wanted[i + 1], tolerance, "weight " + std::to_string(i));
    }
  }
}

TEST_P(Tapes, BackwardLeavesNothingButTheInput) {
  const OperatorCase& on = GetParam();
  for (const RecomputePolicy policy : {RecomputePolicy::none(), RecomputePolicy::full()}) {
    const std::vector<Parameter> parameters = some_parameters(on);
    DeviceBatch batch;
    const OperatorOptions options;
    ExecutingTape tape(parameters, {batch, BlockMode::kTrain, options});
    const Value y = parallel_branches(tape, tape.input(random_tensor(on, {5, kWidth}, "x")));
    tape.forward(y, &policy);
    tape.backward(y, random_tensor(on, {5, kWidth}, "grad"), parameters);
    for (const SavedActivation& value : tape.saved()) EXPECT_EQ(value.name, "input");
  }
}

// x to unread = 2 x to read = unread + 1 to y = read^2. Backward of `y` recomputes all of them.
// `left`: the values that exist in the backward of `read`.
Value with_unread_value(ExecutingTape& tape, Value x, std::vector<std::string>& left) {
  const ValueShape shape = tape.shape(x);
  const auto next = [&](const char* name, Value from, bool is_read, auto compute, auto slope) {
    const Value to = tape.value(ValueKind::kProjection, name, shape);
    Operator step;
    step.inputs = {from};
    if (is_read) step.needs = {from};
    step.outputs = {to};
    step.forward = [=](OperatorContext& run) { run.set(to, compute(run.get(from))); };
    step.backward = [=, &tape, &left](OperatorContext& run) {
      if (!is_read) {
        for (const SavedActivation& value : tape.saved()) left.push_back(value.name);
      }
      run.add_gradient(from, slope(run, from, run.gradient(to)));
    };
    tape.record(std::move(step));
    return to;
  };
  const auto pass = [](OperatorContext&, Value, const at::Tensor& grad) { return grad; };
  const auto times_two = [](OperatorContext&, Value, const at::Tensor& grad) { return grad * 2.0; };
  const auto of_square = [](OperatorContext& run, Value from, const at::Tensor& grad) {
    return run.get(from) * grad * 2.0;
  };
  const Value unread =
      next("unread", x, true, [](const at::Tensor& v) { return v * 2.0; }, times_two);
  const Value read = next("read", unread, false, [](const at::Tensor& v) { return v + 1.0; }, pass);
  return next("y", read, true, [](const at::Tensor& v) { return v * v; }, of_square);
}

TEST_P(Tapes, ARecomputedValueThatNoBackwardReadsIsFreed) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch;
  const OperatorOptions options;
  ExecutingTape tape({}, {batch, BlockMode::kTrain, options});
  std::vector<std::string> left;
  const at::Tensor x = random_tensor(on, {5, kWidth}, "x");
  const Value y = with_unread_value(tape, tape.input(x), left);
  const RecomputePolicy policy = RecomputePolicy::full();
  tape.forward(y, &policy);
  const at::Tensor grad = random_tensor(on, {5, kWidth}, "grad");
  const at::Tensor want = wide_copy(grad) * (wide_copy(x) * 2.0 + 1.0) * 4.0;
  expect_close(tape.backward(y, grad, {}), want, on.tolerance, "d x");
  EXPECT_EQ(left, std::vector<std::string>({"input"}));
  ASSERT_EQ(tape.saved().size(), 1U);
}

TEST_P(Tapes, AnInputOfTwoRecomputedValuesIsRecomputedOnceAndFreedAfterTheSecond) {
  const OperatorCase& on = GetParam();
  DeviceBatch batch;
  const OperatorOptions options;
  ExecutingTape tape({}, {batch, BlockMode::kTrain, options});
  int num_forwards = 0;
  std::vector<std::string> left;
  const Value x = tape.input(random_tensor(on, {5, kWidth}, "x"));
  const auto sum = [&](const char* name, std::vector<Value> inputs, bool reads) {
    const Value to = tape.value(ValueKind::kProjection, name, tape.shape(x));
    Operator step;
    step.inputs = inputs;
    if (reads) step.needs = inputs;
    step.outputs = {to};
    step.forward = [=, &num_forwards](OperatorContext& run) {
      if (inputs.front() == x) ++num_forwards;
      run.set(to, run.get(inputs.front()) + run.get(inputs.back()));
    };
    step.backward = [=, &left, &tape](OperatorContext& run) {
      if (!reads) return;
      for (const Value input : inputs) run.get(input);
      for (const SavedActivation& value : tape.saved()) left.push_back(value.name);
    };
    tape.record(std::move(step));
    return to;
  };
  const Value both = sum("both", {x, x}, false);
  const Value first = sum("first", {both, both}, false);
  const Value second = sum("second", {both, both}, false);
  const Value y = sum("y", {first, second}, true);
  const RecomputePolicy policy = RecomputePolicy::full();
  tape.backward(y, tape.forward(y, &policy), {});
  EXPECT_EQ(num_forwards, 2);  // of `both`: in forward and in backward
  EXPECT_EQ(left, std::vector<std::string>({"input", "first", "second"}));
}

TEST_P(Tapes, ForwardKeepsWhatBackwardReadsAndEvaluationTheInput) {
  const OperatorCase& on = GetParam();
  const std::vector<Parameter> parameters = some_parameters(on);
  DeviceBatch batch;
  const OperatorOptions options;
  const RecomputePolicy full = RecomputePolicy::full();
  for (const RecomputePolicy* policy : {&full, static_cast<const RecomputePolicy*>(nullptr)}) {
    ExecutingTape tape(parameters, {batch, BlockMode::kTrain, options});
    const Value y = parallel_branches(tape, tape.input(random_tensor(on, {5, kWidth}, "x")));
    EXPECT_TRUE(tape.forward(y, policy).defined());
    for (const SavedActivation& value : tape.saved()) {
      const bool is_kept =
          value.name == "input" ||
          (policy != nullptr && value.name.find("statistics") != std::string::npos);
      EXPECT_TRUE(is_kept) << value.name;
    }
  }
}

TEST_P(Tapes, AnUndeclaredInputIsAnError) {
  DeviceBatch batch;
  const OperatorOptions options;
  ExecutingTape tape({}, {batch, BlockMode::kEvaluate, options});
  const Value x = tape.input(random_tensor(GetParam(), {2, kWidth}, "x"));
  const ValueShape shape = tape.shape(x);
  const auto copy = [&](Value from, bool is_declared) {
    const Value to = tape.value(ValueKind::kProjection, "copy", shape);
    Operator step;
    if (is_declared) step.inputs = {from};
    step.outputs = {to};
    step.forward = [=](OperatorContext& run) { run.set(to, run.get(from).clone()); };
    tape.record(std::move(step));
    return to;
  };
  const Value y = copy(copy(x, true), false);
  EXPECT_THROW(tape.forward(y, nullptr), Error);
}

TEST_P(Tapes, SelectedRowsSendTheirGradientsBackToTheirPlaces) {
  const OperatorCase& on = GetParam();
  const at::Tensor rows = at::tensor({4, 0, 2}, at::TensorOptions(at::kInt)).to(on.device);
  const at::Tensor x = random_tensor(on, {6, kWidth}, "x");
  DeviceBatch batch;
  batch.loss_index = rows;
  const OperatorOptions options;
  ExecutingTape tape({}, {batch, BlockMode::kTrain, options});
  const Value y = select_supervised_rows(tape, "rows", tape.input(x));
  const RecomputePolicy policy = RecomputePolicy::none();
  expect_close(tape.forward(y, &policy), x.index_select(0, rows).to(at::kCPU, at::kDouble), 0,
               "rows");
  const at::Tensor grad = random_tensor(on, {3, kWidth}, "grad");
  const at::Tensor dx = tape.backward(y, grad, {});
  const at::Tensor want = at::zeros_like(dx).index_copy(0, rows.to(at::kLong), grad);
  expect_close(dx, want.to(at::kCPU, at::kDouble), 0, "d x");
}

}  // namespace
}  // namespace packtrain
