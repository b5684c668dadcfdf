// RMSNorm against its formula in float64, per device and dtype.
#include "models/ops/rms_norm/rms_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/rsqrt.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/models/cases.h"

namespace packtrain::rms_norm_test {
namespace {

class RmsNorm : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, RmsNorm, testing::ValuesIn(operator_cases()), case_name);

constexpr RmsNormOptions kGemma{.epsilon = 1e-3, .weight_offset = 1};
// Odd and even widths, those of real models, and rows enough to come round to a block again.
constexpr std::int64_t kShapes[][2] = {
    {1, 5},    {7, 3},       {130, 8},   {33, 100},  {2500, 128}, {5, 896},
    {3, 1000}, {1100, 1024}, {7, 2048},  {3, 2560},  {260, 3072}, {130, 4096},
    {2, 5120}, {2, 8192},    {2, 12288}, {3, 16384}, {2, 16400},  {1, 20001}};

std::string shape_of(std::int64_t rows, std::int64_t width) {
  return std::to_string(rows) + " x " + std::to_string(width);
}

at::Tensor formula(const at::Tensor& x, const at::Tensor& weight, const RmsNormOptions& options) {
  const at::Tensor square = (x * x).mean(at::IntArrayRef{1}, true);
  return x * at::rsqrt(square + options.epsilon) * (weight + options.weight_offset);
}

TEST_P(RmsNorm, MatchesItsFormula) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, width] : kShapes) {
    SCOPED_TRACE(shape_of(rows, width));
    const at::Tensor x = random_tensor(on, {rows, width}, "x");
    const at::Tensor grad_output = random_tensor(on, {rows, width}, "grad_output");
    const Parameter weight = random_parameter(on, {width}, "weight");
    const at::Tensor leaf = reference_leaf(x);
    const at::Tensor weight_leaf = reference_leaf(weight.value);
    const at::Tensor want = formula(leaf, weight_leaf, kGemma);
    const auto grads = torch::autograd::grad({want}, {leaf, weight_leaf}, {wide_copy(grad_output)});

    poison_free_memory(on);
    const RmsNormOutput got = rms_norm_forward(x, weight, kGemma);
    EXPECT_EQ(got.y.scalar_type(), on.dtype);
    expect_close(got.y, want, on.tolerance, "y");
    const at::Tensor dx = rms_norm_backward(grad_output, x, got.inverse_rms, weight, kGemma);
    expect_close(dx, grads[0], on.tolerance, "d x");
    expect_close(weight.grad, grads[1], on.tolerance, "d weight");
  }
}

TEST_P(RmsNorm, AddsAnotherGradientAndRecomputesTheOutput) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, width] : kShapes) {
    SCOPED_TRACE(shape_of(rows, width));
    const at::Tensor x = random_tensor(on, {rows, width}, "x");
    const at::Tensor grad_output = random_tensor(on, {rows, width}, "grad_output");
    const at::Tensor grad_residual = random_tensor(on, {rows, width}, "grad_residual");
    const Parameter weight = random_parameter(on, {width}, "weight");
    poison_free_memory(on);
    const RmsNormOutput got = rms_norm_forward(x, weight, RmsNormOptions{});
    const at::Tensor leaf = reference_leaf(x);
    const at::Tensor want = formula(leaf, wide_copy(weight.value), {});
    const auto grads = torch::autograd::grad({want}, {leaf}, {wide_copy(grad_output)});
    const at::Tensor remade = at::full_like(x, std::nan(""));
    const at::Tensor dx = rms_norm_backward(grad_output, x, got.inverse_rms, weight,
                                            RmsNormOptions{}, grad_residual, remade);
    expect_close(dx, grads[0] + wide_copy(grad_residual), on.tolerance, "d x");
    expect_close(remade, got.y, 0, "y, made again");
  }
}

// Rows of `width` columns among `left` and `right` others.
struct Between {
  std::int64_t left;
  std::int64_t right;
  bool exact;  // aligned like rows that lie side by side, so that the same kernels run

  at::Tensor of(const at::Tensor& wide) const {
    return wide.narrow(1, left, wide.size(1) - left - right);
  }
};
constexpr Between kBetween[] = {{8, 16, true}, {3, 2, false}, {0, 1, false}};

void expect_as_side_by_side(const OperatorCase& on, std::int64_t rows, std::int64_t width,
                            const Between& between) {
  const double tolerance = between.exact ? 0 : on.tolerance;
  const std::vector<std::int64_t> shape = {rows, between.left + width + between.right};
  const at::Tensor x = between.of(random_tensor(on, shape, "x"));
  const at::Tensor wide_y = random_tensor(on, shape, "y");
  const at::Tensor wide_grad = random_tensor(on, shape, "grad");
  at::Tensor want_y = wide_y.clone();
  at::Tensor want_grad = wide_grad.clone();
  const Parameter weight = random_parameter(on, {width}, "weight");
  const Parameter other = random_parameter(on, {width}, "weight");
  const RmsNormOutput want = rms_norm_forward(x.contiguous(), weight, kGemma);
  between.of(want_y).copy_(want.y);
  between.of(want_grad).copy_(rms_norm_backward(between.of(wide_grad).contiguous(), x.contiguous(),
                                                want.inverse_rms, weight, kGemma));

  const at::Tensor inverse_rms = rms_norm_forward_into(between.of(wide_y), x, other, kGemma);
  rms_norm_backward_(between.of(wide_grad), x, inverse_rms, other, kGemma);
  expect_close(inverse_rms, want.inverse_rms, between.exact ? 0 : 1e-5, "inverse rms");
  expect_close(wide_y, want_y, tolerance, "y and its neighbours");
  expect_close(wide_grad, want_grad, tolerance, "d x and its neighbours");
  expect_close(other.grad, weight.grad, tolerance, "d weight");
}

TEST_P(RmsNorm, OfStridedRowsIsWrittenInPlaceAndNowhereElse) {
  for (const auto& [rows, width] : kShapes) {
    for (const Between& between : kBetween) {
      SCOPED_TRACE(shape_of(rows, width) + " after " + std::to_string(between.left));
      expect_as_side_by_side(GetParam(), rows, width, between);
    }
  }
}

TEST_P(RmsNorm, RefusesRowsOfDifferentStrides) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {8}, "weight");
  const at::Tensor x = random_tensor(on, {3, 16}, "x").narrow(1, 0, 8);
  const at::Tensor y = random_tensor(on, {3, 8}, "y");
  EXPECT_THROW(rms_norm_forward_into(y, x, weight, {}), Error);
  EXPECT_THROW(rms_norm_backward_(y, x, random_tensor(on, {3, 1}, "i"), weight, {}), Error);
  const at::Tensor columns = random_tensor(on, {8, 3}, "columns").t();
  EXPECT_THROW(rms_norm_forward_into(columns, columns, weight, {}), Error);
}

TEST_P(RmsNorm, WritesAddsOrSkipsTheWeightsGradient) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {130, 64}, "x");
  const at::Tensor grad_output = random_tensor(on, {130, 64}, "grad_output");
  Parameter weight = random_parameter(on, {64}, "weight", at::kFloat);
  const at::Tensor inverse_rms = rms_norm_forward(x, weight, RmsNormOptions{}).inverse_rms;
  rms_norm_backward(grad_output, x, inverse_rms, weight, RmsNormOptions{});
  const at::Tensor normalized = wide_copy(x) * wide_copy(inverse_rms);
  const at::Tensor want = (normalized * wide_copy(grad_output)).sum(at::IntArrayRef{0});
  expect_close(weight.grad, want, 1e-5, "float32 whatever the weight is");
  weight.accumulate = true;
  const at::Tensor dx = rms_norm_backward(grad_output, x, inverse_rms, weight, RmsNormOptions{});
  expect_close(weight.grad, want * 2, 1e-5, "sum of two uses");

  const Parameter frozen{weight.value, {}, false};
  expect_close(rms_norm_backward(grad_output, x, inverse_rms, frozen, {}), dx, 0, "d x");
}

TEST_P(RmsNorm, OfNoRowsHasAZeroWeightGradient) {
  const OperatorCase& on = GetParam();
  const at::Tensor none = random_tensor(on, {0, 64}, "x");
  const Parameter weight = random_parameter(on, {64}, "weight");
  const RmsNormOutput got = rms_norm_forward(none, weight, RmsNormOptions{});
  EXPECT_EQ(got.y.sizes(), none.sizes());
  EXPECT_EQ(rms_norm_backward(none, none, got.inverse_rms, weight, RmsNormOptions{}, none).sizes(),
            none.sizes());
  EXPECT_EQ(weight.grad.abs().max().item<double>(), 0.0);
}

TEST_P(RmsNorm, IsTheSameToTheBitEachTime) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {3000, 256}, "x");
  const at::Tensor grad_output = random_tensor(on, {3000, 256}, "grad_output");
  const Parameter weight = random_parameter(on, {256}, "weight");
  const at::Tensor inverse_rms = rms_norm_forward(x, weight, RmsNormOptions{}).inverse_rms;
  const at::Tensor dx = rms_norm_backward(grad_output, x, inverse_rms, weight, RmsNormOptions{});
  const at::Tensor grad = weight.grad.clone();
  expect_close(rms_norm_backward(grad_output, x, inverse_rms, weight, RmsNormOptions{}), dx, 0,
               "d x");
  expect_close(weight.grad, grad, 0, "d weight");
}

}  // namespace
}  // namespace packtrain::rms_norm_test
