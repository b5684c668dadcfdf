// The gate of attention's output against its formula in float64.
#include "models/ops/output_gate/output_gate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sigmoid.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>

#include "framework/core/error.h"
#include "tests/models/cases.h"

namespace packtrain::output_gate_test {
namespace {

class OutputGate : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, OutputGate, testing::ValuesIn(operator_cases()), case_name);

// No rows, odd widths, whole vectors.
constexpr std::int64_t kShapes[][2] = {{0, 8}, {1, 1}, {33, 70}, {130, 512}, {5, 4096}, {3, 1001}};

void expect_formula(const OperatorCase& on, std::int64_t rows, std::int64_t width,
                    std::int64_t right) {
  const at::Tensor x = random_tensor(on, {rows, width}, "x");
  const at::Tensor z = random_tensor(on, {rows, width + right}, "z").narrow(1, 0, width);
  const at::Tensor grad = random_tensor(on, {rows, width}, "grad");
  const at::Tensor leaf = reference_leaf(x);
  const at::Tensor z_leaf = reference_leaf(z);
  const at::Tensor want = leaf * at::sigmoid(z_leaf);
  const auto grads = torch::autograd::grad({want}, {leaf, z_leaf}, {wide_copy(grad)});

  poison_free_memory(on);
  const at::Tensor y = output_gate_forward(x, z);
  EXPECT_EQ(y.scalar_type(), on.dtype);
  expect_close(y, want, on.tolerance, "y");
  const at::Tensor wide_dz = random_tensor(on, {rows, width + right}, "dz");
  const at::Tensor before = wide_dz.clone();
  const at::Tensor recomputed_output = at::full_like(x, std::nan(""));
  const at::Tensor dx =
      output_gate_backward(grad, x, z, wide_dz.narrow(1, 0, width), recomputed_output);
  expect_close(dx, grads[0], on.tolerance, "d x");
  expect_close(wide_dz.narrow(1, 0, width), grads[1], on.tolerance, "d z");
  expect_close(wide_dz.narrow(1, width, right), before.narrow(1, width, right), 0,
               "neighbours of d z");
  expect_close(recomputed_output, y, 0, "y, made again");
}

TEST_P(OutputGate, MatchesItsFormulaAndWritesNowhereElse) {
  for (const auto& [rows, width] : kShapes) {
    for (const std::int64_t right : {0, 3, 16}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
      expect_formula(GetParam(), rows, width, right);
    }
  }
}

TEST_P(OutputGate, RefusesShapesThatDoNotFit) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {3, 8}, "x");
  EXPECT_THROW(output_gate_forward(x, random_tensor(on, {3, 7}, "z")), Error);
}

}  // namespace
}  // namespace packtrain::output_gate_test
