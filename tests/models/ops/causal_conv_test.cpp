// The causal convolution against its formula in float64.
#include "models/ops/delta_rule/causal_conv.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/models/cases.h"

namespace packtrain::causal_conv_test {
namespace {

using Boundaries = std::vector<std::int32_t>;

class CausalConv : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, CausalConv, testing::ValuesIn(operator_cases()), case_name);

at::Tensor gradient_of(const at::Tensor& grad, const at::Tensor& x,
                       const CausalConvParameters& parameters, const CausalConvOptions& options) {
  at::Tensor grad_x = at::empty(x.sizes(), x.options());
  causal_conv_backward(grad, x, parameters, options, grad_x);
  return grad_x;
}
// Row after row; the bias may be undefined.
at::Tensor formula(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const CausalConvOptions& options) {
  std::vector<at::Tensor> rows;
  for (std::size_t s = 0; s + 1 < options.boundaries.size(); ++s) {
    for (std::int64_t t = options.boundaries[s]; t < options.boundaries[s + 1]; ++t) {
      at::Tensor z = bias.defined() ? bias.clone() : x[t] * 0.0;
      for (std::int64_t lag = 0; lag < weight.size(1); ++lag) {
        if (t - lag < options.boundaries[s]) break;
        z = z + weight.select(1, weight.size(1) - 1 - lag) * x[t - lag];
      }
      rows.push_back(options.silu ? at::silu(z) : z);
    }
  }
  return at::stack(rows);
}

struct Case {
  Boundaries boundaries;
  std::int64_t num_channels = 5;
  std::int64_t width = 4;
  bool silu = true;
  bool has_bias = true;
  bool on_device = false;  // the boundaries are there already
};

void expect_formula(const OperatorCase& on, const Case& test) {
  const at::Tensor x = random_tensor(on, {test.boundaries.back(), test.num_channels}, "x");
  const at::Tensor grad = random_tensor(on, x.sizes(), "d y");
  const Parameter weight = random_parameter(on, {test.num_channels, test.width}, "weight");
  const Parameter bias = random_parameter(on, {test.num_channels}, "bias");
  const CausalConvParameters parameters{weight, test.has_bias ? &bias : nullptr};
  CausalConvOptions options{test.boundaries, test.silu};
  if (test.on_device) options.device_boundaries = int_tensor(on, test.boundaries);
  poison_free_memory(on);
  const at::Tensor y = causal_conv_forward(x, parameters, options);
  poison_free_memory(on);
  const at::Tensor grad_x = gradient_of(grad, x, parameters, options);

  std::vector<at::Tensor> leaves = {reference_leaf(x), reference_leaf(weight.value)};
  if (test.has_bias) leaves.push_back(reference_leaf(bias.value));
  const at::Tensor want =
      formula(leaves[0], leaves[1], test.has_bias ? leaves[2] : at::Tensor(), options);
  expect_close(y, want.detach(), on.tolerance, "y");
  const auto grads = torch::autograd::grad({want}, leaves, {wide_copy(grad)});
  expect_close(grad_x, grads[0], on.tolerance, "d x");
  expect_close(weight.grad, grads[1], on.tolerance, "d w");
  if (test.has_bias) expect_close(bias.grad, grads[2], on.tolerance, "d b");
}

TEST_P(CausalConv, IsItsFormula) {
  for (const bool silu : {false, true}) {
    expect_formula(GetParam(), {.boundaries = {0, 1, 2, 5, 5, 9, 40}, .silu = silu});
  }
}

TEST_P(CausalConv, OfOneRowOrWithoutABiasIsItsFormula) {
  expect_formula(GetParam(), {.boundaries = {0, 7, 11}, .width = 1});
  expect_formula(GetParam(), {.boundaries = {0, 3, 30}, .width = 6, .has_bias = false});
}

TEST_P(CausalConv, OfManyChannelsOverSeveralBlocksOfRowsIsItsFormula) {
  expect_formula(GetParam(), {.boundaries = {0, 63, 64, 65, 127, 130, 300}, .num_channels = 72});
  expect_formula(GetParam(),
                 {.boundaries = {0, 1, 150}, .num_channels = 1040, .width = 3, .has_bias = false});
}

TEST_P(CausalConv, OfSequencesOfOneRowIsItsFormula) {
  Boundaries boundaries(301);
  std::iota(boundaries.begin(), boundaries.end(), 0);
  expect_formula(GetParam(), {.boundaries = boundaries, .num_channels = 16});
}

TEST_P(CausalConv, WithBoundariesOnTheDeviceIsItsFormula) {
  expect_formula(GetParam(),
                 {.boundaries = {0, 1, 2, 70, 70, 99}, .num_channels = 24, .on_device = true});
}

TEST_P(CausalConv, DeviceBoundariesThatDoNotFitAreRefused) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {5, 3}, "x");
  const Parameter weight = random_parameter(on, {3, 4}, "weight");
  const Boundaries boundaries = {0, 2, 5};
  for (const at::Tensor& wrong :
       {int_tensor(on, {0, 5}), int_tensor(on, {0, 2, 5}).to(at::kLong)}) {
    const Error error = test::error_of([&] {
      causal_conv_forward(x, {weight}, {.boundaries = boundaries, .device_boundaries = wrong});
    });
    EXPECT_NE(error.message().find("device boundaries"), std::string::npos) << error.message();
  }
}

TEST_P(CausalConv, TakesColumnsOfALargerTensor) {
  const OperatorCase& on = GetParam();
  const at::Tensor all = random_tensor(on, {90, 32}, "x");
  const at::Tensor grad = random_tensor(on, {90, 16}, "d y");
  const Parameter weight = random_parameter(on, {16, 4}, "weight");
  const Parameter other = random_parameter(on, {16, 4}, "weight");
  const Boundaries boundaries = {0, 20, 90};
  const at::Tensor part = all.narrow(1, 8, 16);
  const at::Tensor copy = part.contiguous();
  EXPECT_TRUE(causal_conv_forward(part, {weight}, {boundaries})
                  .equal(causal_conv_forward(copy, {weight}, {boundaries})));
  // The gradient too may be columns of a larger tensor, whose others stay.
  const at::Tensor grads = all.clone();
  causal_conv_backward(grad, part, {weight}, {boundaries}, grads.narrow(1, 8, 16));
  EXPECT_TRUE(grads.narrow(1, 8, 16).equal(gradient_of(grad, copy, {other}, {boundaries})));
  for (const std::int64_t begin : {0, 24}) {
    EXPECT_TRUE(grads.narrow(1, begin, 8).equal(all.narrow(1, begin, 8)));
  }
  EXPECT_TRUE(weight.grad.equal(other.grad));
}

// On the CPU a vector at the end of a tensor may be computed otherwise.
void expect_same_rows(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_TRUE(a.is_cuda() ? a.equal(b) : a.allclose(b, 1e-6, 1e-6));
}

TEST_P(CausalConv, OtherSequencesDoNotChangeRows) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {200, 16}, "x");
  const at::Tensor grad = random_tensor(on, {200, 16}, "d y");
  const Parameter weight = random_parameter(on, {16, 4}, "weight");
  const Boundaries boundaries = {0, 61, 70, 200};
  const at::Tensor y = causal_conv_forward(x, {weight}, {boundaries});
  const at::Tensor dx = gradient_of(grad, x, {weight}, {boundaries});
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    const std::int32_t begin = boundaries[s], size = boundaries[s + 1] - begin;
    const auto own = [&](const at::Tensor& of) { return of.narrow(0, begin, size); };
    const Boundaries alone = {0, size};
    expect_same_rows(causal_conv_forward(own(x), {weight}, {alone}), own(y));
    expect_same_rows(gradient_of(own(grad), own(x), {weight}, {alone}), own(dx));
  }
}

TEST_P(CausalConv, NeverReadsAnotherSequence) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {12, 3}, "x");
  const Parameter weight = random_parameter(on, {3, 4}, "weight");
  const Boundaries boundaries = {0, 5, 12};
  const CausalConvOptions options{boundaries};
  const at::Tensor y = causal_conv_forward(x, {weight}, options);
  x.narrow(0, 0, 5).fill_(std::nan(""));
  EXPECT_TRUE(causal_conv_forward(x, {weight}, options).narrow(0, 5, 7).equal(y.narrow(0, 5, 7)));
}

TEST_P(CausalConv, AddsToAGradientOnRequest) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {12, 3}, "x");
  const at::Tensor grad = random_tensor(on, {12, 3}, "d y");
  Parameter weight = random_parameter(on, {3, 4}, "weight");
  const Boundaries boundaries = {0, 5, 12};
  gradient_of(grad, x, {weight}, {boundaries});
  const at::Tensor once = weight.grad.clone();
  weight.accumulate = true;
  gradient_of(grad, x, {weight}, {boundaries});
  expect_close(weight.grad, wide_copy(once) * 2, on.tolerance, "twice");
}

TEST_P(CausalConv, ShapesThatDoNotFitAreRefused) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {12, 3}, "x");
  const Parameter weight = random_parameter(on, {4, 4}, "weight");
  const Boundaries boundaries = {0, 12};
  const Error error = test::error_of([&] { causal_conv_forward(x, {weight}, {boundaries}); });
  EXPECT_NE(error.message().find("x [12, 3]"), std::string::npos);
  EXPECT_NE(error.message().find("weight [4, 4]"), std::string::npos);
}

}  // namespace
}  // namespace packtrain::causal_conv_test
