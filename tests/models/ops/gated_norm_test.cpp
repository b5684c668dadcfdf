// The gated norm of heads against its formula in float64.
#include "models/ops/gated_norm/gated_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>

#include "framework/core/error.h"
#include "tests/models/cases.h"

namespace packtrain::gated_norm_test {
namespace {

class GatedNorm : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, GatedNorm, testing::ValuesIn(operator_cases()), case_name);

constexpr double kEpsilon = 1e-3;
// No rows, odd widths, those of published models, widest heads, more heads than warps.
constexpr std::int64_t kShapes[][3] = {{0, 2, 8},     {1, 1, 3},    {33, 5, 14},
                                       {7, 32, 128},  {3, 3, 99},   {40, 6, 192},
                                       {1200, 5, 16}, {2, 3, 1000}, {2, 1, 777}};

at::Tensor formula(const at::Tensor& x, const at::Tensor& z, const at::Tensor& weight) {
  const at::Tensor square = (x * x).mean(at::IntArrayRef{2}, true);
  return x * at::rsqrt(square + kEpsilon) * weight * at::silu(z);
}

// Rows of z inside of wider ones, as a projection has them.
at::Tensor inside(const at::Tensor& wide, std::int64_t left, at::IntArrayRef shape) {
  return wide.narrow(1, left, shape[1] * shape[2]).view(shape);
}

void expect_formula(const OperatorCase& on, at::IntArrayRef shape, std::int64_t left) {
  const std::int64_t width = left + shape[1] * shape[2];
  const at::Tensor x = random_tensor(on, shape, "x");
  const at::Tensor wide_z = random_tensor(on, {shape[0], width}, "z");
  const at::Tensor z = inside(wide_z, left, shape);
  const at::Tensor grad = random_tensor(on, shape, "grad");
  const Parameter weight = random_parameter(on, {shape[2]}, "weight");
  const at::Tensor leaf = reference_leaf(x);
  const at::Tensor z_leaf = reference_leaf(z);
  const at::Tensor weight_leaf = reference_leaf(weight.value);
  const at::Tensor want = formula(leaf, z_leaf, weight_leaf);
  const auto grads = torch::autograd::grad({want}, {leaf, z_leaf, weight_leaf}, {wide_copy(grad)});

  poison_free_memory(on);
  const GatedNormOutput got = gated_norm_forward(x, z, weight, kEpsilon);
  EXPECT_EQ(got.y.scalar_type(), on.dtype);
  expect_close(got.y, want, on.tolerance, "y");
  const at::Tensor wide_dz = random_tensor(on, {shape[0], width}, "dz");
  const at::Tensor before = wide_dz.clone();
  const at::Tensor recomputed_output = at::full_like(x, std::nan(""));
  const at::Tensor dx = gated_norm_backward(grad, {x, z, got.inverse_rms}, weight,
                                            inside(wide_dz, left, shape), recomputed_output);
  expect_close(dx, grads[0], on.tolerance, "d x");
  expect_close(inside(wide_dz, left, shape), grads[1], on.tolerance, "d z");
  expect_close(wide_dz.narrow(1, 0, left), before.narrow(1, 0, left), 0, "neighbours of d z");
  expect_close(weight.grad, grads[2], on.tolerance, "d weight");
  expect_close(recomputed_output, got.y, 0, "y, made again");
}

TEST_P(GatedNorm, MatchesItsFormulaAndWritesNowhereElse) {
  for (const auto& shape : kShapes) {
    for (const std::int64_t left : {0, 3, 16}) {
      SCOPED_TRACE(std::to_string(shape[0]) + " rows of " + std::to_string(shape[2]) + " after " +
                   std::to_string(left));
      expect_formula(GetParam(), shape, left);
    }
  }
}

TEST_P(GatedNorm, RefusesShapesThatDoNotFit) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {8}, "weight");
  const at::Tensor x = random_tensor(on, {3, 2, 8}, "x");
  EXPECT_THROW(gated_norm_forward(x, random_tensor(on, {3, 1, 8}, "z"), weight, kEpsilon), Error);
  const Parameter other = random_parameter(on, {7}, "weight");
  EXPECT_THROW(gated_norm_forward(x, x, other, kEpsilon), Error);
}

}  // namespace
}  // namespace packtrain::gated_norm_test
