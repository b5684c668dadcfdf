// Casts to 8-bit floats with a scale for each 128 numbers, against the arithmetic of each group.
#include "models/ops/fp8/fp8_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/ops/fp8/fp8.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_block_test {
namespace {

class Fp8Block : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8Block, testing::ValuesIn(operator_cases()), case_name);

// Ends within groups of 128, in both directions.
constexpr std::int64_t kShapes[][2] = {{1, 16},    {7, 48},     {16, 128},  {127, 144}, {128, 256},
                                       {130, 112}, {300, 1024}, {1000, 80}, {257, 2064}};

at::Tensor bytes_of(const at::Tensor& codes) {
  return codes.view(at::kByte).cpu();
}

struct Expected {
  at::Tensor codes;   // of x as it is
  at::Tensor scales;  // of groups, in the order of x
};

// Casts each group of group_rows x group_columns by the arithmetic of fp8_arithmetic.h.
Expected expected(const at::Tensor& x, std::int64_t group_rows, std::int64_t group_columns) {
  const at::Tensor values = x.cpu().to(at::kFloat).contiguous();
  const auto* from = values.const_data_ptr<float>();
  Expected want{at::empty(values.sizes(), at::TensorOptions(at::kByte)),
                at::empty({(x.size(0) + group_rows - 1) / group_rows,
                           (x.size(1) + group_columns - 1) / group_columns})};
  for (std::int64_t row = 0; row < want.scales.size(0); ++row) {
    for (std::int64_t column = 0; column < want.scales.size(1); ++column) {
      const std::int64_t r = row * group_rows;
      const std::int64_t c = column * group_columns;
      const float amax = values.narrow(0, r, std::min(group_rows, x.size(0) - r))
                             .narrow(1, c, std::min(group_columns, x.size(1) - c))
                             .abs()
                             .max()
                             .item<float>();
      const auto scale = fp8::scale_of(std::bit_cast<std::uint32_t>(amax), Fp8Format::kE4M3);
      want.scales[row][column] = std::bit_cast<float>(scale.factor);
      for (std::int64_t i = r; i < std::min(r + group_rows, x.size(0)); ++i) {
        for (std::int64_t j = c; j < std::min(c + group_columns, x.size(1)); ++j) {
          const float scaled = from[i * x.size(1) + j] * std::bit_cast<float>(scale.multiplier);
          want.codes.data_ptr<std::uint8_t>()[i * x.size(1) + j] =
              fp8::encode(std::bit_cast<std::uint32_t>(scaled), Fp8Format::kE4M3);
        }
      }
    }
  }
  return want;
}

void expect_groups(const OperatorCase& on, const at::Tensor& x, const std::string& what) {
  SCOPED_TRACE(what);
  const std::int64_t rows = x.size(0);
  poison_free_memory(on);
  const Fp8Groups groups = fp8_group_cast(x, {.rows = true, .columns = Fp8ColumnScales::kGroups});
  const Expected of_rows = expected(x, 1, kFp8BlockSize);
  EXPECT_TRUE(bytes_of(groups.rows.codes).narrow(0, 0, rows).equal(of_rows.codes));
  EXPECT_TRUE(groups.rows.scale.cpu().narrow(1, 0, rows).equal(of_rows.scales.t()));
  const Expected of_columns = expected(x, kFp8BlockSize, 1);
  EXPECT_TRUE(bytes_of(groups.columns.codes).narrow(1, 0, rows).equal(of_columns.codes.t()));
  EXPECT_TRUE(groups.columns.scale.cpu().equal(of_columns.scales));
  const std::int64_t padding = groups.rows.codes.size(0) - rows;
  EXPECT_TRUE(bytes_of(groups.rows.codes).narrow(0, rows, padding).eq(0).all().item<bool>());
  EXPECT_TRUE(groups.rows.scale.narrow(1, rows, padding).eq(1).all().item<bool>());
  EXPECT_TRUE(bytes_of(groups.columns.codes).narrow(1, rows, padding).eq(0).all().item<bool>());
}

TEST_P(Fp8Block, EveryBitOfAGroupIsThatOfTheArithmetic) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, columns] : kShapes) {
    const at::Tensor x = random_tensor(on, {rows, columns}, "x");
    expect_groups(on, x * (random_tensor(on, {rows, columns}, "powers") * 4).exp2(), "random");
    const at::Tensor outlier = x * 1e-6;
    outlier[rows / 2][columns / 3] = 3e4;
    expect_groups(on, outlier, "one huge number");
    expect_groups(on, at::full_like(x, 1e-39), "subnormal numbers");
    expect_groups(on, at::zeros_like(x), "zeros");
  }
}

TEST_P(Fp8Block, RowsOrColumnsAloneHaveTheSameBits) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {200, 160}, "x");
  const Fp8Groups both = fp8_group_cast(x, {.rows = true, .columns = Fp8ColumnScales::kGroups});
  const Fp8Groups rows = fp8_group_cast(x, {.rows = true});
  EXPECT_FALSE(rows.columns.codes.defined());
  EXPECT_TRUE(bytes_of(rows.rows.codes).equal(bytes_of(both.rows.codes)));
  EXPECT_TRUE(rows.rows.scale.equal(both.rows.scale));
  const Fp8Groups columns = fp8_group_cast(x, {.columns = Fp8ColumnScales::kGroups});
  EXPECT_FALSE(columns.rows.codes.defined());
  EXPECT_TRUE(bytes_of(columns.columns.codes).equal(bytes_of(both.columns.codes)));
  EXPECT_TRUE(columns.columns.scale.equal(both.columns.scale));
}

TEST_P(Fp8Block, ColumnsWithOneScaleAreThoseOfATensor) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, columns] : kShapes) {
    const at::Tensor x = random_tensor(on, {rows, columns}, "x") * 1e-3;
    for (const Fp8Format format : {Fp8Format::kE4M3, Fp8Format::kE5M2}) {
      const Fp8Groups groups = fp8_group_cast(
          x, {.rows = true, .columns = Fp8ColumnScales::kTensor, .tensor_format = format});
      const at::Tensor scale = make_fp8_scale(x);
      const Fp8Copies want = fp8_cast(x, scale, {.format = format, .columns = true});
      EXPECT_TRUE(bytes_of(groups.columns.codes).equal(bytes_of(want.columns)));
      EXPECT_EQ(groups.columns.codes.scalar_type(), fp8_scalar_type(format));
      EXPECT_TRUE(groups.columns.scale.equal(scale));
      EXPECT_TRUE(bytes_of(groups.rows.codes)
                      .narrow(0, 0, rows)
                      .equal(expected(x, 1, kFp8BlockSize).codes));
    }
  }
}

TEST_P(Fp8Block, AWeightHasTheScalesOfItsBlocks) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{16, 16}, {128, 512}, {272, 1040}}) {
    const at::Tensor weight = random_tensor(on, {rows, columns}, "weight") *
                              (random_tensor(on, {rows, columns}, "powers") * 4).exp2();
    poison_free_memory(on);
    const Expected want = expected(weight, kFp8BlockSize, kFp8BlockSize);
    const auto scales = [&](const Fp8Operand& of, const at::Tensor& like) {
      return of.scale.cpu().narrow(1, 0, like.size(1));
    };
    const Fp8Operand plain = fp8_block_cast(weight, false);
    EXPECT_TRUE(bytes_of(plain.codes).equal(want.codes));
    EXPECT_TRUE(scales(plain, want.scales).equal(want.scales));
    const Fp8Operand transposed = fp8_block_cast(weight, true);
    EXPECT_TRUE(bytes_of(transposed.codes).equal(want.codes.t()));
    EXPECT_TRUE(scales(transposed, want.scales.t()).equal(want.scales.t()));
  }
}

TEST_P(Fp8Block, ANumberThatIsNotFiniteMakesItsGroupNan) {
  const OperatorCase& on = GetParam();
  for (const double wrong : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const at::Tensor x = random_tensor(on, {140, 272}, "x");
    x[139][130] = wrong;
    const Fp8Groups groups = fp8_group_cast(x, {.rows = true, .columns = Fp8ColumnScales::kGroups});
    const at::Tensor rows = bytes_of(groups.rows.codes).eq(0x7F);
    EXPECT_TRUE(rows[139].narrow(0, 128, 128).all().item<bool>());
    EXPECT_EQ(rows.sum().item<int>(), 128);
    EXPECT_TRUE(groups.rows.scale[1][139].isnan().item<bool>());
    const at::Tensor columns = bytes_of(groups.columns.codes).eq(0x7F);
    EXPECT_TRUE(columns[130].narrow(0, 128, 12).all().item<bool>());
    EXPECT_EQ(columns.sum().item<int>(), 12);
    EXPECT_TRUE(groups.columns.scale[1][130].isnan().item<bool>());
  }
}

TEST_P(Fp8Block, RowsMayBePartsOfLongerOnes) {
  const OperatorCase& on = GetParam();
  expect_groups(on, random_tensor(on, {50, 96}, "x").narrow(1, 16, 64), "a part");
  const at::Tensor whole = random_tensor(on, {50 * 96 + 3}, "x");
  expect_groups(on, whole.narrow(0, 3, 50 * 96).view({50, 96}), "not aligned");
}

TEST_P(Fp8Block, ATensorWithoutRowsHasNoCodes) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = at::empty({0, 32}, on.options());
  const Fp8Groups groups = fp8_group_cast(x, {.rows = true, .columns = Fp8ColumnScales::kGroups});
  EXPECT_EQ(groups.rows.codes.sizes(), (std::vector<std::int64_t>{0, 32}));
  EXPECT_EQ(groups.columns.codes.sizes(), (std::vector<std::int64_t>{32, 0}));
  const Fp8Groups one = fp8_group_cast(x, {.rows = true, .columns = Fp8ColumnScales::kTensor});
  EXPECT_EQ(one.columns.scale[0].item<float>(), 1.0F);
}

TEST_P(Fp8Block, SizesThatAreNoWholeVectorsAreRefused) {
  const OperatorCase& on = GetParam();
  EXPECT_THROW(fp8_group_cast(random_tensor(on, {4, 24}, "x"), {.rows = true}), Error);
  EXPECT_THROW(fp8_block_cast(random_tensor(on, {24, 32}, "weight"), false), Error);
}

}  // namespace
}  // namespace packtrain::fp8_block_test
