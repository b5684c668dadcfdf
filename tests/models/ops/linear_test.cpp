// Linear layers against float64, forward and backward, per device and dtype.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>

#include <cmath>

#include "models/ops/linear/linear.h"
#include "tests/models/cases.h"

namespace packtrain::linear_test {
namespace {

class Linear : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Linear, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kShapes[][3] = {  // rows, in, out
    {0, 8, 16},
    {1, 8, 16},
    {7, 5, 3},
    {130, 64, 24}};

at::Tensor wide(const at::Tensor& x) {
  return x.to(at::kCPU, at::kDouble);
}

Parameter with_float_gradient(Parameter parameter) {
  parameter.grad = at::full_like(parameter.grad, std::nan(""), at::kFloat);
  return parameter;
}

TEST_P(Linear, AddsBiasAndResidualToTheProduct) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    const at::Tensor x = random_tensor(on, {rows, in}, "x");
    const at::Tensor residual = random_tensor(on, {rows, out}, "residual");
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    const Parameter bias = random_parameter(on, {out}, "bias");
    const at::Tensor product = at::matmul(wide(x), wide(weight.value).t());
    const at::Tensor with_bias = product + wide(bias.value);
    expect_close(linear_forward(x, weight, nullptr, {}), product, on.tolerance, "product");
    expect_close(linear_forward(x, weight, &bias, {}), with_bias, on.tolerance, "bias");
    expect_close(linear_forward(x, weight, nullptr, {}, residual), product + wide(residual),
                 on.tolerance, "residual");
    expect_close(linear_forward(x, weight, &bias, {}, residual), with_bias + wide(residual),
                 on.tolerance, "bias and residual");
  }
}

TEST_P(Linear, MultipliesTheProductsButNotWhatIsAdded) {
  const OperatorCase& on = GetParam();
  constexpr double kScale = 0.3;
  for (const auto& [rows, in, out] : kShapes) {
    const at::Tensor x = random_tensor(on, {rows, in}, "x");
    const at::Tensor residual = random_tensor(on, {rows, out}, "residual");
    const at::Tensor grad_output = random_tensor(on, {rows, out}, "grad_output");
    const at::Tensor sum = random_tensor(on, {rows, in}, "sum");
    Parameter weight = random_parameter(on, {out, in}, "weight");
    const at::Tensor wide_weight = wide(weight.value);
    expect_close(linear_forward(x, weight, nullptr, {}, residual, kScale),
                 at::matmul(wide(x), wide_weight.t()) * kScale + wide(residual), on.tolerance, "y");
    expect_close(linear_backward_input(grad_output, weight, {}, sum, kScale),
                 at::matmul(wide(grad_output), wide_weight) * kScale + wide(sum), on.tolerance,
                 "d x");
    const at::Tensor want = at::matmul(wide(grad_output).t(), wide(x)) * kScale;
    linear_backward_weight(grad_output, x, weight, nullptr, {}, kScale);
    expect_close(weight.grad, want, on.tolerance, "d weight");
    weight.accumulate = true;
    linear_backward_weight(grad_output, x, weight, nullptr, {}, kScale);
    expect_close(weight.grad, want * 2, on.tolerance, "d weight, added");
  }
}

TEST_P(Linear, AddsAnotherGradientOfItsInput) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    const at::Tensor grad_output = random_tensor(on, {rows, out}, "grad_output");
    const at::Tensor sum = random_tensor(on, {rows, in}, "sum");
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    const at::Tensor want = at::matmul(wide(grad_output), wide(weight.value));
    expect_close(linear_backward_input(grad_output, weight, {}), want, on.tolerance, "d x");
    expect_close(linear_backward_input(grad_output, weight, {}, sum), want + wide(sum),
                 on.tolerance, "d x and another gradient");
  }
}

void expect_weight_gradients(const OperatorCase& on, Parameter weight, Parameter bias,
                             std::int64_t rows) {
  const at::Tensor x = random_tensor(on, {rows, weight.value.size(1)}, "x");
  const at::Tensor grad_output = random_tensor(on, {rows, weight.value.size(0)}, "grad_output");
  const at::Tensor want = at::matmul(wide(grad_output).t(), wide(x));
  const at::Tensor want_bias = wide(grad_output).sum(at::IntArrayRef{0});
  linear_backward_weight(grad_output, x, weight, &bias, {});
  expect_close(weight.grad, want, on.tolerance, "d weight");
  expect_close(bias.grad, want_bias, on.tolerance, "d bias");
  weight.accumulate = bias.accumulate = true;
  linear_backward_weight(grad_output, x, weight, &bias, {});
  expect_close(weight.grad, want * 2, on.tolerance, "d weight, added");
  expect_close(bias.grad, want_bias * 2, on.tolerance, "d bias, added");
}

TEST_P(Linear, WritesOrAddsWeightGradientsOfItsDtypeOrFloat32) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    const Parameter bias = random_parameter(on, {out}, "bias");
    expect_weight_gradients(on, weight, bias, rows);
    OperatorCase exact = on;
    exact.tolerance = 1e-5;
    expect_weight_gradients(exact, with_float_gradient(weight), with_float_gradient(bias), rows);
  }
}

TEST_P(Linear, SkipsFrozenParameters) {
  const OperatorCase& on = GetParam();
  const Parameter frozen{random_tensor(on, {16, 8}, "weight"), {}, false};
  const Parameter frozen_bias{random_tensor(on, {16}, "bias"), {}, false};
  linear_backward_weight(random_tensor(on, {5, 16}, "grad_output"), random_tensor(on, {5, 8}, "x"),
                         frozen, &frozen_bias, {});
  EXPECT_FALSE(frozen.grad.defined());
  EXPECT_FALSE(frozen_bias.grad.defined());
}

}  // namespace
}  // namespace packtrain::linear_test
