// The values that a plan counts in backward, against those that an ExecutingTape has.
#include "models/estimates/tape_values.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "models/block/executing_tape.h"
#include "models/estimates/saved_activations.h"

namespace packtrain {
namespace {

constexpr std::int64_t kRows = 3;
constexpr std::int64_t kInputWidth = 5;

// An operator by numbers of values: 0 is the input, n + 1 the output of operator n.
struct RandomOperator {
  std::vector<int> inputs;
  int residual = -1;  // -1: none
  std::vector<int> needs;
  ValueKind kind = ValueKind::kProjection;
  std::int64_t width = 1;
};

// Each operator reads the output of the one before, so that all have gradients. Widths differ, so
// that sums of bytes name their values.
std::vector<RandomOperator> random_layer(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  constexpr ValueKind kKinds[] = {ValueKind::kProjection, ValueKind::kNormOutput,
                                  ValueKind::kActivationOutput, ValueKind::kStatistics};
  std::vector<RandomOperator> operators(static_cast<std::size_t>(4 + below(8)));
  for (int n = 0; RandomOperator & one : operators) {
    one.inputs = {n};
    if (below(3) == 0 && n > 0) one.inputs.push_back(below(n));
    if (below(3) == 0 && n > 0) one.residual = below(n);
    for (const int input : one.inputs) {
      if (below(2) == 0) one.needs.push_back(input);
    }
    if (below(4) == 0) one.needs.push_back(n + 1);
    one.kind = kKinds[below(4)];
    one.width = std::int64_t{1} << (3 + n);
    ++n;
  }
  return operators;
}

// `observe` is called in the backward of each operator, when it has what it needs.
Value record(OperatorTape& tape, Value input, const std::vector<RandomOperator>& operators,
             const std::function<void(std::size_t)>& observe) {
  std::vector<Value> values = {input};
  for (std::size_t n = 0; n < operators.size(); ++n) {
    const RandomOperator& one = operators[n];
    const Value to = tape.value(one.kind, "v", {kRows, one.width, at::kFloat});
    values.push_back(to);
    Operator step;
    for (const int input_of : one.inputs) step.inputs.push_back(values.at(std::size_t(input_of)));
    for (const int needed : one.needs) step.needs.push_back(values.at(std::size_t(needed)));
    std::vector<Value> read = step.inputs;
    if (one.residual >= 0) {
      step.residual = values.at(std::size_t(one.residual));
      read.push_back(*step.residual);
    }
    step.outputs = {to};
    step.forward = [=](OperatorContext& run) {
      for (const Value value : read) run.get(value);
      run.set(to, at::zeros({kRows, one.width}));
    };
    step.backward = [=, needs = step.needs](OperatorContext& run) {
      for (const Value needed : needs) run.get(needed);
      observe(n);
      for (const Value value : read) run.set_gradient(value, at::zeros({1}));
    };
    tape.record(std::move(step));
  }
  return values.back();
}

// By operator: bytes of values in its backward.
std::vector<std::int64_t> executed(const std::vector<RandomOperator>& operators,
                                   const RecomputePolicy& policy) {
  DeviceBatch batch;
  const OperatorOptions options;
  ExecutingTape tape({}, {batch, BlockMode::kTrain, options});
  std::vector<std::int64_t> bytes(operators.size());
  const Value output = record(tape, tape.input(at::zeros({kRows, kInputWidth})), operators,
                              [&](std::size_t n) { bytes[n] = total_bytes(tape.saved()); });
  const at::Tensor y = tape.forward(output, &policy);
  tape.backward(output, at::zeros_like(y), {});
  return bytes;
}

std::vector<std::int64_t> planned(const std::vector<RandomOperator>& operators,
                                  const RecomputePolicy& policy) {
  ShapeTape tape({.num_rows = kRows, .compute = at::kFloat});
  record(tape, tape.input(kInputWidth), operators, [](std::size_t) {});
  const TapeValues values(tape, policy);
  std::vector<std::int64_t> bytes;
  for (std::size_t n = 0; n < operators.size(); ++n) {
    bytes.push_back(values.bytes_in_backward_of(n));
  }
  return bytes;
}

TEST(TapeValues, AreThoseOfAnExecutingTapeInEachBackward) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    const std::vector<RandomOperator> operators = random_layer(seed);
    for (const RecomputePolicy& policy : {RecomputePolicy::none(), RecomputePolicy::full()}) {
      ASSERT_EQ(planned(operators, policy), executed(operators, policy)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace packtrain
