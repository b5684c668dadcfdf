// xIELU against its formula in float64: values, and gradients of rows and of both trained numbers.
#include "models/ops/xielu/xielu.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::xielu_test {
namespace {

class Xielu : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Xielu, testing::ValuesIn(operator_cases()), case_name);

// No rows, odd sizes, more elements than the threads of a grid have at a time.
constexpr std::int64_t kShapes[][2] = {{0, 8},     {1, 1},     {7, 3},     {29, 24},
                                       {130, 100}, {64, 2048}, {3, 14336}, {130, 4099}};

struct Numbers {
  Parameter alpha_p;
  Parameter alpha_n;
  Parameter beta;
  Parameter epsilon;

  XieluParameters all() const { return {alpha_p, alpha_n, beta, epsilon}; }
};

// As in a model: the constants have no gradient.
Numbers numbers(const OperatorCase& on, double alpha_p, double alpha_n, double beta,
                double epsilon) {
  OperatorCase wide = on;
  wide.dtype = at::kFloat;
  const auto trained = [&](double value) {
    Parameter parameter = random_parameter(wide, {1}, "number");
    parameter.value.fill_(value);
    return parameter;
  };
  const auto constant = [&](double value) {
    return Parameter{.value = at::full({1}, value, wide.options()), .grad = {}};
  };
  return {trained(alpha_p), trained(alpha_n), constant(beta), constant(epsilon)};
}

at::Tensor formula(const at::Tensor& x, const at::Tensor& alpha_p, const at::Tensor& alpha_n,
                   const Numbers& of) {
  const at::Tensor beta = wide_copy(of.beta.value);
  const at::Tensor p = at::softplus(alpha_p);
  const at::Tensor n = beta + at::softplus(alpha_n);
  const at::Tensor below = at::expm1(at::minimum(x, wide_copy(of.epsilon.value))) - x;
  return at::where(x > 0, p * x * x, n * below) + beta * x;
}

void expect_xielu(const OperatorCase& on, const Numbers& of, std::int64_t rows,
                  std::int64_t width) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
  const at::Tensor x = random_tensor(on, {rows, width}, "x") * 3;
  const at::Tensor grad = random_tensor(on, {rows, width}, "grad");
  const at::Tensor leaf = reference_leaf(x);
  const at::Tensor p = reference_leaf(of.alpha_p.value);
  const at::Tensor n = reference_leaf(of.alpha_n.value);
  const at::Tensor want = formula(leaf, p, n, of);
  const auto grads = torch::autograd::grad({want}, {leaf, p, n}, {wide_copy(grad)});

  poison_free_memory(on);
  const at::Tensor y = xielu_forward(x, of.all());
  EXPECT_EQ(y.scalar_type(), on.dtype);
  expect_close(y, want.detach(), on.tolerance, "y");
  const at::Tensor dx = x.clone();
  xielu_backward_in_place(grad.clone(), dx, of.all(), /*recomputes_output=*/false);
  expect_close(dx, grads[0], on.tolerance, "d x");
  // Sums of both signs, of numbers that are rounded once in float32.
  expect_close(of.alpha_p.grad, grads[1], 1e-4, "d alpha_p");
  expect_close(of.alpha_n.grad, grads[2], 1e-4, "d alpha_n");
  const at::Tensor again = x.clone();
  const at::Tensor y_for_grad = grad.clone();
  xielu_backward_in_place(y_for_grad, again, of.all(), /*recomputes_output=*/true);
  expect_close(again, dx, 0, "d x, remaking");
  expect_close(y_for_grad, y, 0, "y, made again");
}

TEST_P(Xielu, MatchesItsFormula) {
  const Numbers of = numbers(GetParam(), 0.2, -1.05, 0.5, -1e-6);
  for (const auto& [rows, width] : kShapes) expect_xielu(GetParam(), of, rows, width);
}

TEST_P(Xielu, MatchesItsFormulaWithOtherConstants) {
  expect_xielu(GetParam(), numbers(GetParam(), -0.7, 0.6, -0.2, -0.3), 65, 100);
}

TEST_P(Xielu, FrozenNumbersStillPassTheGradientOn) {
  const OperatorCase& on = GetParam();
  const Numbers trained = numbers(on, 0.2, -1.05, 0.5, -1e-6);
  Numbers frozen = trained;
  frozen.alpha_p.grad = frozen.alpha_n.grad = at::Tensor();
  const at::Tensor x = random_tensor(on, {9, 24}, "x");
  const at::Tensor grad = random_tensor(on, {9, 24}, "grad");
  const at::Tensor want = x.clone();
  xielu_backward_in_place(grad.clone(), want, trained.all(), false);
  const at::Tensor got = x.clone();
  xielu_backward_in_place(grad.clone(), got, frozen.all(), false);
  EXPECT_TRUE(got.equal(want));
}

TEST_P(Xielu, FarBelowZeroStaysFinite) {
  const OperatorCase& on = GetParam();
  const Numbers of = numbers(on, 0.2, -1.05, 0.5, -1e-6);
  const at::Tensor x = at::full_like(random_tensor(on, {2, 16}, "x"), -300.0);
  EXPECT_TRUE(xielu_forward(x, of.all()).isfinite().all().item<bool>());
  const at::Tensor dx = x.clone();
  xielu_backward_in_place(at::full_like(x, 1.0), dx, of.all(), false);
  EXPECT_TRUE(dx.isfinite().all().item<bool>());
}

}  // namespace
}  // namespace packtrain::xielu_test
