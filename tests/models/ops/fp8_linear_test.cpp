// Linear layers with 8-bit operands, against float64 with the same rounded numbers.
#include "models/ops/fp8/fp8_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "framework/core/error.h"
#include "models/ops/fp8/fp8.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_linear_test {
namespace {

class Fp8Linear : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8Linear, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kShapes[][3] = {  // rows, in, out
    {0, 16, 32},
    {1, 16, 32},
    {7, 48, 16},
    {130, 64, 144},
    {257, 1040, 272}};

struct Rounded {
  Fp8Copies copies;
  at::Tensor scale;
  at::Tensor values;  // float64 on the CPU

  Fp8Operand rows() const { return {copies.rows, scale}; }
  Fp8Operand columns() const { return {copies.columns, scale}; }
};

Rounded rounded(const at::Tensor& x, Fp8Format format) {
  Rounded of;
  of.scale = make_fp8_scale(x);
  of.copies = fp8_cast(x, of.scale, {.format = format, .rows = true, .columns = true});
  of.values =
      of.copies.rows.cpu().to(at::kFloat).to(at::kDouble) * of.scale[0].cpu().item<double>();
  return of;
}

// Hopper's tensor cores align the products of a step of 32 terms to the largest one and keep 14
// bits (arXiv 2412.19437, section 3.3.2). Each term so loses up to 2^-13 of the largest product.
// Without fast accumulation the sums of steps are added in float32, otherwise with 14 bits as well.
double tolerance_of(const OperatorCase& on, bool is_fast) {
  if (on.device.is_cpu()) return on.tolerance;
  return std::max(on.tolerance, is_fast ? 2e-3 : 1e-3);
}

TEST_P(Fp8Linear, TheProductIsThatOfTheRoundedNumbers) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    const Rounded x = rounded(random_tensor(on, {rows, in}, "x") * 0.7, Fp8Format::kE4M3);
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    const Parameter bias = random_parameter(on, {out}, "bias");
    const at::Tensor residual = random_tensor(on, {rows, out}, "residual");
    const Rounded w = rounded(weight.value, Fp8Format::kE4M3);
    const at::Tensor product = at::matmul(x.values, w.values.t());
    const at::Tensor scale = make_fp8_scale(weight.value);
    poison_free_memory(on);
    const double tolerance = tolerance_of(on, /*is_fast=*/true);
    expect_close(fp8_linear_forward(x.rows(), weight, scale, nullptr, {}), product, tolerance,
                 "product");
    EXPECT_TRUE(scale.equal(w.scale));
    expect_close(fp8_linear_forward(x.rows(), weight, scale, &bias, {}),
                 product + wide_copy(bias.value), tolerance, "bias");
    expect_close(fp8_linear_forward(x.rows(), weight, scale, nullptr, {}, residual),
                 product + wide_copy(residual), tolerance, "residual");
    expect_close(fp8_linear_forward(x.rows(), weight, scale, &bias, {}, residual),
                 product + wide_copy(bias.value) + wide_copy(residual), tolerance, "both");
  }
}

TEST_P(Fp8Linear, TheGradientOfTheInputIsThatOfTheRoundedNumbers) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    const Rounded grad = rounded(random_tensor(on, {rows, out}, "grad") * 1e-3, Fp8Format::kE5M2);
    const at::Tensor sum = random_tensor(on, {rows, in}, "sum");
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    const Rounded w = rounded(weight.value, Fp8Format::kE4M3);
    const at::Tensor want = at::matmul(grad.values, w.values);
    poison_free_memory(on);
    const double tolerance = tolerance_of(on, /*is_fast=*/false);
    expect_close(fp8_linear_backward_input(grad.rows(), weight, w.scale, {}), want, tolerance,
                 "d x");
    expect_close(fp8_linear_backward_input(grad.rows(), weight, w.scale, {}, sum),
                 want + wide_copy(sum), tolerance, "d x and another gradient");
  }
}

void expect_weight_gradient(const OperatorCase& on, Parameter weight, std::int64_t rows) {
  const Rounded x = rounded(random_tensor(on, {rows, weight.value.size(1)}, "x"), Fp8Format::kE4M3);
  const Rounded grad =
      rounded(random_tensor(on, {rows, weight.value.size(0)}, "grad"), Fp8Format::kE5M2);
  const at::Tensor want = at::matmul(grad.values.t(), x.values);
  const double tolerance = tolerance_of(on, /*is_fast=*/false);
  fp8_linear_backward_weight(grad.columns(), x.columns(), weight, {});
  expect_close(weight.grad, want, tolerance, "d weight");
  weight.accumulate = true;
  fp8_linear_backward_weight(grad.columns(), x.columns(), weight, {});
  expect_close(weight.grad, want * 2, tolerance, "d weight, added");
}

TEST_P(Fp8Linear, WritesOrAddsWeightGradientsOfItsDtypeOrFloat32) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    expect_weight_gradient(on, weight, rows);
    OperatorCase exact = on;
    exact.tolerance = 1e-5;
    Parameter wide = weight;
    wide.grad = at::full_like(weight.grad, std::nan(""), at::kFloat);
    expect_weight_gradient(exact, wide, rows);
  }
}

// As in flat buffers after a parameter of odd size.
TEST_P(Fp8Linear, WeightsAndGradientsMayBeginAnywhere) {
  const OperatorCase& on = GetParam();
  constexpr std::int64_t kNumel = 48 * 32;
  const Parameter whole = random_parameter(on, {kNumel + 1}, "weight");
  const Parameter weight{whole.value.narrow(0, 1, kNumel).view({48, 32}),
                         whole.grad.narrow(0, 1, kNumel).view({48, 32}), false};
  const at::Tensor scale = make_fp8_scale(weight.value);
  const Rounded x = rounded(random_tensor(on, {20, 32}, "x"), Fp8Format::kE4M3);
  const Rounded w = rounded(weight.value, Fp8Format::kE4M3);
  expect_close(fp8_linear_forward(x.rows(), weight, scale, nullptr, {}),
               at::matmul(x.values, w.values.t()), tolerance_of(on, /*is_fast=*/true), "product");
  expect_weight_gradient(on, weight, 20);
}

TEST_P(Fp8Linear, AFrozenWeightHasNoGradient) {
  const OperatorCase& on = GetParam();
  const Parameter frozen{random_tensor(on, {32, 16}, "weight"), {}, false};
  const Rounded x = rounded(random_tensor(on, {5, 16}, "x"), Fp8Format::kE4M3);
  const Rounded grad = rounded(random_tensor(on, {5, 32}, "grad"), Fp8Format::kE5M2);
  fp8_linear_backward_weight(grad.columns(), x.columns(), frozen, {});
  EXPECT_FALSE(frozen.grad.defined());
}

TEST_P(Fp8Linear, AnInputThatIsNotFiniteMakesTheWholeProductNan) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {32, 48}, "weight");
  for (const double wrong : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    const at::Tensor x = random_tensor(on, {20, 48}, "x");
    x[3][40] = wrong;
    const at::Tensor y = fp8_linear_forward(rounded(x, Fp8Format::kE4M3).rows(), weight,
                                            make_fp8_scale(x), nullptr, {});
    EXPECT_TRUE(y.isnan().all().item<bool>());
  }
}

TEST_P(Fp8Linear, TheSameProductHasTheSameBits) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {256, 2048}, "weight");
  const Rounded x = rounded(random_tensor(on, {100, 2048}, "x"), Fp8Format::kE4M3);
  const at::Tensor scale = make_fp8_scale(x.scale);
  const at::Tensor first = fp8_linear_forward(x.rows(), weight, scale, nullptr, {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fp8_linear_forward(x.rows(), weight, scale, nullptr, {}).equal(first));
  }
}

TEST_P(Fp8Linear, TwoOperandsOfE5m2AreRefused) {
  const OperatorCase& on = GetParam();
  const Rounded one = rounded(random_tensor(on, {32, 16}, "x"), Fp8Format::kE5M2);
  EXPECT_THROW(fp8_gemm_out(at::empty({32, 32}, on.options()), one.rows(), one.rows(), {}, {}, {}),
               Error);
}

TEST_P(Fp8Linear, AScaleThatIsNotAlignedIsRefused) {
  const OperatorCase& on = GetParam();
  Fp8Operand one = rounded(random_tensor(on, {32, 16}, "x"), Fp8Format::kE4M3).rows();
  const at::Tensor scales = at::empty({2, 2}, one.scale.options());
  one.scale = scales[1];
  EXPECT_THROW(fp8_gemm_out(at::empty({32, 32}, on.options()), one, one, {}, {}, {}), Error);
}

TEST(Fp8LinearSizes, AreMultiplesOf16) {
  EXPECT_TRUE(fp8_takes(16, 4096));
  EXPECT_FALSE(fp8_takes(16, 4104));
  EXPECT_FALSE(fp8_takes(24, 4096));
  EXPECT_FALSE(fp8_takes(0, 16));
}

}  // namespace
}  // namespace packtrain::fp8_linear_test
