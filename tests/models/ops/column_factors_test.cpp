// Factors of columns against libtorch's products of each part.
#include "models/ops/column_factors/column_factors.h"

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/models/cases.h"

namespace packtrain::column_factors_test {
namespace {

class ColumnFactors : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ColumnFactors, testing::ValuesIn(operator_cases()), case_name);

void expect_products(const OperatorCase& on, std::int64_t num_rows,
                     const std::vector<ColumnFactor>& factors) {
  std::int64_t width = 0;
  for (const ColumnFactor& one : factors) width += one.width;
  const at::Tensor whole = random_tensor(on, {num_rows, width + 8}, "rows");
  const at::Tensor before = whole.clone();
  multiply_columns_(whole.narrow(1, 0, width), factors);
  std::int64_t begin = 0;
  for (const auto& [size, factor] : factors) {
    const at::Tensor want = before.narrow(1, begin, size).to(at::kFloat).mul(factor);
    EXPECT_TRUE(whole.narrow(1, begin, size).equal(want.to(whole.scalar_type())))
        << num_rows << " rows, columns from " << begin;
    begin += size;
  }
  EXPECT_TRUE(whole.narrow(1, width, 8).equal(before.narrow(1, width, 8)));
}

TEST_P(ColumnFactors, MultiplyTheirOwnColumnsAlone) {
  const OperatorCase& on = GetParam();
  expect_products(on, 5, {{16, 0.5}, {8, 1}, {24, -1.25}});
  expect_products(on, 3, {{3, 0.25}, {1, 2}, {7, 1}, {5, 3}});  // no vectors
  expect_products(on, 3000, {{1536, 0.75}, {1536, 1.5}, {128, 0.125}, {128, 2}, {24, 0.5}});
  expect_products(on, 1, {{4, 2}});
  expect_products(on, 0, {{4, 2}});
}

TEST_P(ColumnFactors, RefuseOtherWidths) {
  const at::Tensor rows = random_tensor(GetParam(), {2, 8}, "rows");
  const Error error = test::error_of([&] { multiply_columns_(rows, {{4, 2}, {3, 1}}); });
  EXPECT_NE(error.message().find("2 factors of 7 columns"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace packtrain::column_factors_test
