// The gated short convolution against its formula in float64.
#include "models/ops/short_conv/short_conv.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/models/cases.h"

namespace packtrain::short_conv_test {
namespace {

using Boundaries = std::vector<std::int32_t>;

class ShortConv : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ShortConv, testing::ValuesIn(operator_cases()), case_name);

// Row after row; the bias may be undefined.
at::Tensor formula(const at::Tensor& projection, const at::Tensor& weight, const at::Tensor& bias,
                   const Boundaries& boundaries) {
  const std::int64_t channels = weight.size(0);
  const at::Tensor b = projection.narrow(1, 0, channels);
  const at::Tensor c = projection.narrow(1, channels, channels);
  const at::Tensor x = projection.narrow(1, 2 * channels, channels);
  std::vector<at::Tensor> rows;
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    for (std::int64_t t = boundaries[s]; t < boundaries[s + 1]; ++t) {
      at::Tensor z = bias.defined() ? bias.clone() : x[t] * 0.0;
      for (std::int64_t lag = 0; lag < weight.size(1) && t - lag >= boundaries[s]; ++lag) {
        z = z + weight.select(1, weight.size(1) - 1 - lag) * b[t - lag] * x[t - lag];
      }
      rows.push_back(c[t] * z);
    }
  }
  return at::stack(rows);
}

struct Case {
  Boundaries boundaries;
  std::int64_t num_channels = 5;
  std::int64_t width = 3;
  bool has_bias = false;
};

void expect_formula(const OperatorCase& on, const Case& test) {
  const std::int64_t channels = test.num_channels;
  const at::Tensor in = random_tensor(on, {test.boundaries.back(), 3 * channels}, "projection");
  const at::Tensor grad = random_tensor(on, {in.size(0), channels}, "d y");
  const Parameter weight = random_parameter(on, {channels, test.width}, "weight");
  const Parameter bias = random_parameter(on, {channels}, "bias");
  const CausalConvParameters parameters{weight, test.has_bias ? &bias : nullptr};
  const CausalConvOptions options{test.boundaries, /*silu=*/false};
  poison_free_memory(on);
  const at::Tensor y = short_conv_forward(in, parameters, options);
  const at::Tensor again = random_tensor(on, y.sizes(), "poison");
  poison_free_memory(on);
  const at::Tensor grad_in = short_conv_backward(grad, in, parameters, options, again);

  std::vector<at::Tensor> leaves = {reference_leaf(in), reference_leaf(weight.value)};
  if (test.has_bias) leaves.push_back(reference_leaf(bias.value));
  const at::Tensor want =
      formula(leaves[0], leaves[1], test.has_bias ? leaves[2] : at::Tensor(), test.boundaries);
  expect_close(y, want.detach(), on.tolerance, "y");
  EXPECT_TRUE(again.equal(y));
  const auto grads = torch::autograd::grad({want}, leaves, {wide_copy(grad)});
  expect_close(grad_in, grads[0], on.tolerance, "d projection");
  expect_close(weight.grad, grads[1], on.tolerance, "d w");
  if (test.has_bias) expect_close(bias.grad, grads[2], on.tolerance, "d b");
}

TEST_P(ShortConv, IsItsFormula) {
  for (const bool has_bias : {false, true}) {
    expect_formula(GetParam(), {.boundaries = {0, 1, 2, 5, 5, 9, 40}, .has_bias = has_bias});
  }
}

TEST_P(ShortConv, OfEachWidthIsItsFormula) {
  for (const std::int64_t width : {1, 2, 4, 5, 8}) {
    expect_formula(GetParam(), {.boundaries = {0, 7, 8, 80}, .num_channels = 8, .width = width});
  }
}

TEST_P(ShortConv, OfSequencesOfOneRowIsItsFormula) {
  Boundaries boundaries(301);
  std::iota(boundaries.begin(), boundaries.end(), 0);
  expect_formula(GetParam(), {.boundaries = boundaries, .num_channels = 16, .has_bias = true});
}

TEST_P(ShortConv, NeverReadsAnotherSequence) {
  const OperatorCase& on = GetParam();
  const at::Tensor in = random_tensor(on, {12, 9}, "projection");
  const Parameter weight = random_parameter(on, {3, 3}, "weight");
  const Boundaries boundaries = {0, 5, 12};
  const CausalConvOptions options{boundaries, /*silu=*/false};
  const at::Tensor y = short_conv_forward(in, {weight}, options);
  in.narrow(0, 0, 5).fill_(std::nan(""));
  EXPECT_TRUE(short_conv_forward(in, {weight}, options).narrow(0, 5, 7).equal(y.narrow(0, 5, 7)));
}

TEST_P(ShortConv, ShapesThatDoNotFitAndAnActivationAreRefused) {
  const OperatorCase& on = GetParam();
  const at::Tensor in = random_tensor(on, {12, 10}, "projection");
  const at::Tensor fits = random_tensor(on, {12, 9}, "projection");
  const Parameter weight = random_parameter(on, {3, 3}, "weight");
  const Boundaries boundaries = {0, 12};
  const Error shape =
      test::error_of([&] { short_conv_forward(in, {weight}, {boundaries, /*silu=*/false}); });
  EXPECT_NE(shape.message().find("projection [12, 10]"), std::string::npos) << shape.message();
  const Error silu = test::error_of([&] { short_conv_forward(fits, {weight}, {boundaries}); });
  EXPECT_NE(silu.message().find("with silu"), std::string::npos) << silu.message();
}

}  // namespace
}  // namespace packtrain::short_conv_test
