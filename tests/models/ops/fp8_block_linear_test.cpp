// Linear layers whose 8-bit operands have a scale for each 128 numbers, against float64 with the
// same rounded numbers.
#include "models/ops/fp8/fp8_block_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "models/ops/fp8/fp8_block.h"
#include "models/ops/fp8/fp8_linear.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_block_linear_test {
namespace {

class Fp8BlockLinear : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8BlockLinear, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kShapes[][3] = {  // rows, in, out
    {0, 16, 32},     {1, 16, 32},      {7, 48, 16},     {130, 64, 144},
    {128, 256, 384}, {257, 1040, 272}, {144, 1536, 640}};

// The numbers of groups of group_rows x 128 that codes stand for, in float64 on the CPU.
at::Tensor values_of(const Fp8Operand& operand) {
  const at::Tensor codes = operand.codes.cpu().to(at::kFloat).to(at::kDouble);
  const at::Tensor scales = operand.scale.cpu().to(at::kDouble);
  const at::Tensor values = at::empty_like(codes);
  for (std::int64_t row = 0; row < codes.size(0); ++row) {
    for (std::int64_t block = 0; block < num_fp8_blocks(codes.size(1)); ++block) {
      const std::int64_t first = block * kFp8BlockSize;
      const std::int64_t size = std::min(kFp8BlockSize, codes.size(1) - first);
      const at::Tensor scale = operand.scaling == Fp8Scaling::kBlockWise1x128
                                   ? scales[block][row]
                                   : scales[row / kFp8BlockSize][block];
      values[row].narrow(0, first, size).copy_(codes[row].narrow(0, first, size) * scale);
    }
  }
  return values;
}

// Each partial sum of 128 products has the error of Hopper's tensor cores (fp8_linear_test.cpp).
double tolerance_of(const OperatorCase& on) {
  return on.device.is_cpu() ? on.tolerance : std::max(on.tolerance, 1e-3);
}

Fp8Groups groups_of(const at::Tensor& x) {
  return fp8_group_cast(x, {.rows = true, .columns = Fp8ColumnScales::kGroups});
}

TEST_P(Fp8BlockLinear, TheProductIsThatOfTheRoundedNumbers) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    const Fp8Operand x = groups_of(random_tensor(on, {rows, in}, "x") * 0.7).rows;
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    const Parameter bias = random_parameter(on, {out}, "bias");
    const at::Tensor residual = random_tensor(on, {rows, out}, "residual");
    const at::Tensor product = at::matmul(values_of(x).narrow(0, 0, rows),
                                          values_of(fp8_block_cast(weight.value, false)).t());
    poison_free_memory(on);
    const double tolerance = tolerance_of(on);
    expect_close(fp8_block_linear_forward(x, rows, weight, nullptr, {}), product, tolerance,
                 "product");
    expect_close(fp8_block_linear_forward(x, rows, weight, &bias, {}),
                 product + wide_copy(bias.value), tolerance, "bias");
    expect_close(fp8_block_linear_forward(x, rows, weight, &bias, {}, residual),
                 product + wide_copy(bias.value) + wide_copy(residual), tolerance, "both");
  }
}

TEST_P(Fp8BlockLinear, TheGradientOfTheInputIsThatOfTheRoundedNumbers) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    const Fp8Operand grad = groups_of(random_tensor(on, {rows, out}, "grad") * 1e-3).rows;
    const at::Tensor sum = random_tensor(on, {rows, in}, "sum");
    const Parameter weight = random_parameter(on, {out, in}, "weight");
    const at::Tensor want = at::matmul(values_of(grad).narrow(0, 0, rows),
                                       values_of(fp8_block_cast(weight.value, true)).t());
    poison_free_memory(on);
    expect_close(fp8_block_linear_backward_input(grad, rows, weight, {}), want, tolerance_of(on),
                 "d x");
    expect_close(fp8_block_linear_backward_input(grad, rows, weight, {}, sum),
                 want + wide_copy(sum), tolerance_of(on), "d x and another gradient");
  }
}

void expect_weight_gradient(const OperatorCase& on, Parameter weight, std::int64_t rows) {
  const Fp8Operand x = groups_of(random_tensor(on, {rows, weight.value.size(1)}, "x")).columns;
  const Fp8Operand grad =
      groups_of(random_tensor(on, {rows, weight.value.size(0)}, "grad")).columns;
  const at::Tensor want = at::matmul(values_of(grad), values_of(x).t());
  fp8_linear_backward_weight(grad, x, weight, {});
  expect_close(weight.grad, want, tolerance_of(on), "d weight");
  weight.accumulate = true;
  fp8_linear_backward_weight(grad, x, weight, {});
  expect_close(weight.grad, want * 2, tolerance_of(on), "d weight, added");
}

TEST_P(Fp8BlockLinear, WritesOrAddsWeightGradientsOfItsDtypeOrFloat32) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, in, out] : kShapes) {
    OperatorCase exact = on;
    exact.tolerance = 1e-5;
    expect_weight_gradient(exact, random_parameter(on, {out, in}, "weight", at::kFloat), rows);
    expect_weight_gradient(on, random_parameter(on, {out, in}, "weight"), rows);
  }
}

// A scale that is read for another group would multiply by 2^40, or lose what it belongs to.
TEST_P(Fp8BlockLinear, EachGroupHasItsOwnScale) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {384, 640}, "weight");
  const at::Tensor x = random_tensor(on, {272, 640}, "x");
  for (std::int64_t block = 0; block < 5; ++block) {
    const double scale = std::exp2(8.0 * static_cast<double>(block) - 16);
    x.narrow(1, 128 * block, 128).mul_(scale);
    weight.value.narrow(1, 128 * block, 128).div_(scale);
  }
  x[100] *= 1e6;
  weight.value.narrow(0, 128, 128).mul_(1e3);
  const Fp8Operand rows = groups_of(x).rows;
  const at::Tensor want =
      at::matmul(values_of(rows), values_of(fp8_block_cast(weight.value, false)).t());
  const at::Tensor got = wide_copy(fp8_block_linear_forward(rows, 272, weight, nullptr, {}));
  const at::Tensor ordinary = got.narrow(0, 0, 100);  // without the row of large numbers
  const at::Tensor wanted = want.narrow(0, 0, 100);
  expect_close(ordinary.narrow(1, 0, 128), wanted.narrow(1, 0, 128), tolerance_of(on), "large");
  expect_close(ordinary.narrow(1, 128, 256), wanted.narrow(1, 128, 256), tolerance_of(on), "small");
  expect_close(got[100], want[100], tolerance_of(on), "a row of large numbers");
}

TEST_P(Fp8BlockLinear, AnInputThatIsNotFiniteMakesItsRowNan) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {32, 144}, "weight");
  const at::Tensor x = random_tensor(on, {20, 144}, "x");
  x[3][130] = std::nan("");
  const at::Tensor y = fp8_block_linear_forward(groups_of(x).rows, 20, weight, nullptr, {}).isnan();
  EXPECT_TRUE(y[3].all().item<bool>());
  EXPECT_EQ(y.sum().item<int>(), 32);
}

TEST_P(Fp8BlockLinear, TheSameProductHasTheSameBits) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {256, 2048}, "weight");
  const Fp8Operand x = groups_of(random_tensor(on, {100, 2048}, "x")).rows;
  const at::Tensor first = fp8_block_linear_forward(x, 100, weight, nullptr, {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(fp8_block_linear_forward(x, 100, weight, nullptr, {}).equal(first));
  }
}

TEST_P(Fp8BlockLinear, OtherPairsOfScalesAreRefused) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {32, 16}, "x");
  const at::Tensor out = at::empty({32, 32}, on.options());
  const Fp8Operand blocks = fp8_block_cast(x, false);
  EXPECT_THROW(fp8_gemm_out(out, blocks, blocks, {}, {}, {}), Error);
  const Fp8Groups one = fp8_group_cast(x, {.rows = true, .columns = Fp8ColumnScales::kTensor});
  const Fp8Operand tensor{one.rows.codes, one.columns.scale};
  EXPECT_THROW(fp8_gemm_out(out, one.rows, tensor, {}, {}, {}), Error);
  Fp8Operand wrong = one.rows;
  wrong.scale = blocks.scale;
  EXPECT_THROW(fp8_gemm_out(out, wrong, blocks, {}, {}, {}), Error);
}

}  // namespace
}  // namespace packtrain::fp8_block_linear_test
