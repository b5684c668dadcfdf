// LayerNorm against its formula in float64, per device and dtype.
#include "models/ops/layer_norm/layer_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rsqrt.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>

#include "tests/models/cases.h"

namespace packtrain::layer_norm_test {
namespace {

class LayerNorm : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, LayerNorm, testing::ValuesIn(operator_cases()), case_name);

constexpr LayerNormOptions kOptions{.epsilon = 1e-3};
// Odd and even widths, those of real models, and rows enough to come round to a block again.
constexpr std::int64_t kShapes[][2] = {{1, 5},      {7, 3},      {130, 8},    {33, 100},
                                       {2500, 128}, {5, 768},    {3, 1000},   {1100, 1024},
                                       {7, 2048},   {260, 2560}, {130, 4544}, {2, 8192},
                                       {3, 12288},  {2, 16384},  {1, 20001}};

std::string shape_of(std::int64_t rows, std::int64_t width) {
  return std::to_string(rows) + " x " + std::to_string(width);
}

// A mean well away from 0 would show a variance found by subtraction.
at::Tensor shifted_tensor(const OperatorCase& on, at::IntArrayRef shape) {
  return random_tensor(on, shape, "x") + 3.0;
}

at::Tensor formula(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor centered = x - x.mean(at::IntArrayRef{1}, true);
  const at::Tensor variance = (centered * centered).mean(at::IntArrayRef{1}, true);
  const at::Tensor y = centered * at::rsqrt(variance + kOptions.epsilon) * weight;
  return bias.defined() ? y + bias : y;
}

TEST_P(LayerNorm, MatchesItsFormula) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, width] : kShapes) {
    SCOPED_TRACE(shape_of(rows, width));
    const at::Tensor x = shifted_tensor(on, {rows, width});
    const at::Tensor grad_output = random_tensor(on, {rows, width}, "grad_output");
    const Parameter weight = random_parameter(on, {width}, "weight");
    const Parameter bias = random_parameter(on, {width}, "bias", at::kFloat);
    const at::Tensor leaf = reference_leaf(x);
    const at::Tensor weight_leaf = reference_leaf(weight.value);
    const at::Tensor bias_leaf = reference_leaf(bias.value);
    const at::Tensor want = formula(leaf, weight_leaf, bias_leaf);
    const auto grads =
        torch::autograd::grad({want}, {leaf, weight_leaf, bias_leaf}, {wide_copy(grad_output)});

    poison_free_memory(on);
    const LayerNormOutput got = layer_norm_forward(x, weight, &bias, kOptions);
    EXPECT_EQ(got.y.scalar_type(), on.dtype);
    expect_close(got.y, want, on.tolerance, "y");
    const at::Tensor remade = at::full_like(x, std::nan(""));
    const at::Tensor dx = layer_norm_backward(grad_output, x, got.mean, got.inverse_deviation,
                                              weight, &bias, grad_output, remade);
    expect_close(dx, grads[0] + wide_copy(grad_output), on.tolerance, "d x");
    expect_close(weight.grad, grads[1], on.tolerance, "d weight");
    expect_close(bias.grad, grads[2], on.tolerance, "d bias");
    expect_close(remade, got.y, 0, "y, made again");
  }
}

TEST_P(LayerNorm, WorksWithoutABias) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, width] : kShapes) {
    SCOPED_TRACE(shape_of(rows, width));
    const at::Tensor x = shifted_tensor(on, {rows, width});
    const Parameter weight = random_parameter(on, {width}, "weight");
    poison_free_memory(on);
    const LayerNormOutput got = layer_norm_forward(x, weight, nullptr, kOptions);
    expect_close(got.y, formula(wide_copy(x), wide_copy(weight.value), {}), on.tolerance, "y");
  }
}

TEST_P(LayerNorm, WritesAddsOrSkipsTheGradients) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = shifted_tensor(on, {130, 64});
  const at::Tensor grad_output = random_tensor(on, {130, 64}, "grad_output");
  Parameter weight = random_parameter(on, {64}, "weight", at::kFloat);
  Parameter bias = random_parameter(on, {64}, "bias");
  const LayerNormOutput output = layer_norm_forward(x, weight, &bias, {});
  const auto backward = [&](const Parameter& w, const Parameter& b) {
    return layer_norm_backward(grad_output, x, output.mean, output.inverse_deviation, w, &b);
  };
  const at::Tensor dx = backward(weight, bias);
  const at::Tensor weight_grad = weight.grad.clone();
  const at::Tensor bias_grad = bias.grad.clone();
  weight.accumulate = true;
  backward(weight, bias);
  expect_close(weight.grad, weight_grad * 2, 1e-6, "sum of two uses");
  expect_close(bias.grad, bias_grad, 0, "written again");
  bias.accumulate = true;
  expect_close(backward({weight.value, {}, false}, bias), dx, 0, "d x");
  expect_close(bias.grad, bias_grad * 2, on.tolerance, "sum of two uses");
}

TEST_P(LayerNorm, OfNoRowsHasZeroGradients) {
  const OperatorCase& on = GetParam();
  const at::Tensor none = random_tensor(on, {0, 64}, "x");
  const Parameter weight = random_parameter(on, {64}, "weight");
  const Parameter bias = random_parameter(on, {64}, "bias");
  const LayerNormOutput got = layer_norm_forward(none, weight, &bias, {});
  layer_norm_backward(none, none, got.mean, got.inverse_deviation, weight, &bias);
  EXPECT_EQ(weight.grad.abs().max().item<double>(), 0.0);
  EXPECT_EQ(bias.grad.abs().max().item<double>(), 0.0);
}

}  // namespace
}  // namespace packtrain::layer_norm_test
