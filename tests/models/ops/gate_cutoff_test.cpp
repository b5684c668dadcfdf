// The cutoff of gates against its formula in float64.
#include "models/ops/gate_cutoff/gate_cutoff.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/std.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "tests/models/cases.h"

namespace packtrain::gate_cutoff_test {
namespace {

class GateCutoff : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, GateCutoff, testing::ValuesIn(operator_cases()), case_name);

// No rows, odd widths, whole vectors, several vectors of a thread.
constexpr std::int64_t kGateShapes[][2] = {{0, 8},     {1, 3},    {33, 70},
                                           {130, 512}, {3, 1001}, {5, 9000}};

void expect_formula(const OperatorCase& on, std::int64_t rows, std::int64_t inner,
                    double quantile) {
  const at::Tensor x = random_tensor(on, {rows, 2 * inner}, "x");
  const at::Tensor leaf = reference_leaf(x);
  const at::Tensor gate = leaf.narrow(1, 0, inner);
  const at::Tensor cutoff =
      gate.mean(at::IntArrayRef{1}, /*keepdim=*/true) +
      quantile * at::std(gate, at::IntArrayRef{1}, /*unbiased=*/false, /*keepdim=*/true);
  const at::Tensor want = at::cat({at::relu(gate - cutoff), leaf.narrow(1, inner, inner)}, 1);
  const at::Tensor grad = random_tensor(on, {rows, 2 * inner}, "grad");
  const auto grads = torch::autograd::grad({want}, {leaf}, {wide_copy(grad)});

  poison_free_memory(on);
  const at::Tensor y = gate_cutoff_forward(x, quantile);
  EXPECT_EQ(y.scalar_type(), on.dtype);
  expect_close(y, want, on.tolerance, "y");
  gate_cutoff_backward_(grad, x, quantile);
  expect_close(grad, grads[0], on.tolerance, "d x");
}

TEST_P(GateCutoff, MatchesItsFormula) {
  for (const auto& [rows, inner] : kGateShapes) {
    for (const double quantile : {-0.7, 0.0, 1.6448536}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(inner));
      expect_formula(GetParam(), rows, inner, quantile);
    }
  }
}

TEST_P(GateCutoff, HasTheSameBitsAgain) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {17, 2 * 520}, "x");
  const at::Tensor grad = random_tensor(on, {17, 2 * 520}, "grad");
  const at::Tensor again = grad.clone();
  EXPECT_TRUE(gate_cutoff_forward(x, 1.2).equal(gate_cutoff_forward(x, 1.2)));
  gate_cutoff_backward_(grad, x, 1.2);
  gate_cutoff_backward_(again, x, 1.2);
  EXPECT_TRUE(again.equal(grad));
}

TEST_P(GateCutoff, LeavesTheInputAsItIs) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {5, 20}, "x");
  const at::Tensor before = x.clone();
  const at::Tensor grad = random_tensor(on, {5, 20}, "grad");
  gate_cutoff_forward(x, 0.3);
  gate_cutoff_backward_(grad, x, 0.3);
  expect_close(x, before, 0, "x");
}

// transformers' deviation of equal numbers has no gradient.
TEST_P(GateCutoff, EqualGatesHaveFiniteGradients) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = at::ones({4, 12}, on.options());
  const at::Tensor grad = at::ones({4, 12}, on.options());
  gate_cutoff_backward_(grad, x, 1.0);
  expect_close(grad.narrow(1, 0, 6), at::zeros({4, 6}), 0, "d gate");
  expect_close(grad.narrow(1, 6, 6), at::ones({4, 6}), 0, "d up");
}

TEST(NormalQuantile, IsThatOfTables) {
  EXPECT_NEAR(normal_quantile(0.95), 1.6448536269514722, 1e-12);
  EXPECT_NEAR(normal_quantile(0.5), 0.0, 1e-12);
  EXPECT_NEAR(normal_quantile(0.1), -1.2815515655446004, 1e-12);
}

}  // namespace
}  // namespace packtrain::gate_cutoff_test
