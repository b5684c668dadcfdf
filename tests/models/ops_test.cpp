// Each operator against its formula in float64, forward and backward, per device and dtype.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "models/ops/gradient.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "models/ops/rotary/rotary.h"
#include "models/ops/swiglu/swiglu.h"
#include "tests/models/cases.h"

namespace packtrain {
namespace {

class Operator : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Operator, testing::ValuesIn(operator_cases()), case_name);

TEST_P(Operator, LinearMatchesItsFormula) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : {std::tuple{1, 8, 16}, {37, 24, 40}, {130, 64, 8}}) {
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    const Parameter bias = random_parameter(on, {out}, "bias");
    expect_matches_reference(
        on, random_tensor(on, {rows, in}, "x"), {weight, bias},
        [&](const at::Tensor& x) { return linear(x, weight, &bias); },
        [](const at::Tensor& x, const auto& w) { return at::matmul(x, w[0].t()) + w[1]; });
  }
}

TEST_P(Operator, LinearSkipsFrozenAndAddsToSharedGradients) {
  const OperatorCase& on = GetParam();
  Parameter weight = random_parameter(on, {16, 8}, "weight");
  const at::Tensor x = random_tensor(on, {5, 8}, "x");
  const at::Tensor grad_output = random_tensor(on, {5, 16}, "grad_output");
  linear_backward(grad_output, x, weight, nullptr);
  const at::Tensor once = weight.grad.to(at::kDouble);
  weight.accumulate = true;
  linear_backward(grad_output, x, weight, nullptr);
  expect_close(weight.grad, once * 2, on.tolerance, "sum of two uses");

  const Parameter frozen{weight.value, {}, false};
  const at::Tensor dx = linear_backward(grad_output, x, frozen, nullptr);
  expect_close(dx, linear_backward(grad_output, x, weight, nullptr), 0, "d x");
  EXPECT_FALSE(frozen.grad.defined());
}

TEST_P(Operator, SwigluMatchesItsFormula) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, inner] : {std::pair{1, 8}, {29, 24}, {64, 128}}) {
    const std::int64_t width = inner;
    expect_matches_reference(on, random_tensor(on, {rows, 2 * width}, "x") * 3, {}, swiglu,
                             [width](const at::Tensor& x, const auto&) {
                               const at::Tensor gate = x.narrow(1, 0, width);
                               return gate * at::sigmoid(gate) * x.narrow(1, width, width);
                             });
  }
}

TEST_P(Operator, RotaryTurnsQueriesAndKeysAndKeepsValues) {
  const OperatorCase& on = GetParam();
  const std::int64_t head_dim = 16;
  const std::int64_t num_rotated = 6;
  const at::Tensor positions = int_tensor(on, some_ids(21, 300));
  const auto frequencies = rotary_frequencies(10000.0, head_dim, {});
  const RotaryFrequencies on_device(frequencies);
  const RotaryTables tables = rotary_tables(positions, on_device.on(on.device));
  const at::Tensor angles =
      at::matmul(
          positions.to(at::kCPU, at::kDouble).unsqueeze(1),
          at::tensor(frequencies, at::TensorOptions(at::kFloat)).to(at::kDouble).unsqueeze(0))
          .unsqueeze(1);
  // Angles up to 300 in float32 are exact to 2e-5.
  OperatorCase looser = on;
  looser.tolerance = std::max(on.tolerance, 3e-5);
  expect_matches_reference(
      looser, random_tensor(on, {21, 8, head_dim}, "qkv"), {},
      [&](const at::Tensor& x) { return rotary(x, num_rotated, tables); },
      [&](const at::Tensor& x, const auto&) {
        const at::Tensor turning = x.narrow(1, 0, num_rotated);
        const at::Tensor first = turning.narrow(2, 0, head_dim / 2);
        const at::Tensor second = turning.narrow(2, head_dim / 2, head_dim / 2);
        const at::Tensor cos = angles.cos();
        const at::Tensor sin = angles.sin();
        const at::Tensor turned =
            at::cat({first * cos - second * sin, second * cos + first * sin}, 2);
        return at::cat({turned, x.narrow(1, num_rotated, 8 - num_rotated)}, 1);
      });
}

struct LossCase {
  at::Tensor x;
  Parameter weight;
  CrossEntropyTargets targets;
};

LossCase loss_case(const OperatorCase& on, std::int64_t rows, std::int64_t vocab_size) {
  LossCase loss;
  loss.x = random_tensor(on, {rows, 16}, "x");
  loss.weight = random_parameter(on, {vocab_size, 16}, "weight");
  loss.targets.labels = int_tensor(on, some_ids(rows, static_cast<std::int32_t>(vocab_size)));
  const OperatorCase wide{on.device, at::kFloat, 0};
  loss.targets.weights = random_tensor(wide, {rows}, "row weights").abs();
  loss.targets.row_losses = at::full_like(loss.targets.weights, std::nan(""));
  return loss;
}

// The vocabulary of the last case is so large that the CPU takes its rows in three chunks.
TEST_P(Operator, LinearCrossEntropyMatchesItsFormula) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, vocab_size] : {std::pair{1, 8}, {70, 33}, {300, 40000}}) {
    const LossCase loss = loss_case(on, rows, vocab_size);
    const at::Tensor x = reference_leaf(loss.x);
    const at::Tensor weight = reference_leaf(loss.weight.value);
    const at::Tensor labels = loss.targets.labels.to(at::kCPU, at::kLong).unsqueeze(1);
    const at::Tensor row_losses =
        -at::log_softmax(at::matmul(x, weight.t()), 1).gather(1, labels).squeeze(1);
    const at::Tensor want = (row_losses * loss.targets.weights.to(at::kCPU, at::kDouble)).sum();
    const auto grads = torch::autograd::grad({want}, {x, weight});

    const CrossEntropyOutput got = linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
    EXPECT_EQ(got.loss.scalar_type(), at::kFloat);
    expect_close(got.loss, want, on.tolerance, "loss");
    expect_close(loss.targets.row_losses, row_losses, on.tolerance, "row losses");
    expect_close(got.grad_x, grads[0], on.tolerance, "d x");
    expect_close(loss.weight.grad, grads[1], on.tolerance, "d weight");
  }
}

TEST_P(Operator, LinearCrossEntropyInEvaluationTouchesNoGradient) {
  const OperatorCase& on = GetParam();
  const LossCase loss = loss_case(on, 20, 30);
  const CrossEntropyOutput trained = linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
  loss.weight.grad.fill_(5.0);
  const CrossEntropyOutput output = linear_cross_entropy(loss.x, loss.weight, loss.targets, false);
  EXPECT_EQ(output.loss.item<float>(), trained.loss.item<float>());
  EXPECT_FALSE(output.grad_x.defined());
  EXPECT_EQ(loss.weight.grad.min().item<double>(), 5.0);
}

TEST_P(Operator, LinearCrossEntropyOfNoRowsIsZeroWithZeroGradients) {
  const OperatorCase& on = GetParam();
  LossCase loss = loss_case(on, 0, 30);
  const CrossEntropyOutput output = linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
  EXPECT_EQ(output.loss.item<float>(), 0.0F);
  EXPECT_EQ(loss.weight.grad.abs().max().item<double>(), 0.0);
  loss.weight.grad.fill_(5.0);
  loss.weight.accumulate = true;
  linear_cross_entropy(loss.x, loss.weight, loss.targets, true);
  EXPECT_EQ(loss.weight.grad.min().item<double>(), 5.0) << "the other use's gradient was lost";
}

}  // namespace
}  // namespace packtrain
