// Grouped products of 8-bit floats against float64 with the same rounded numbers.
#include "models/ops/experts/fp8_grouped_matmul.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/ops/fp8/fp8.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_grouped_matmul_test {
namespace {

class Fp8GroupedMatmul : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8GroupedMatmul, testing::ValuesIn(operator_cases()), case_name);

struct Groups {
  std::vector<std::int32_t> sizes;
  std::int64_t inner;
  std::int64_t columns;

  std::int64_t num_groups() const { return static_cast<std::int64_t>(sizes.size()); }
  std::int64_t num_rows() const { return std::reduce(sizes.begin(), sizes.end(), 0); }
  at::Tensor ends(const OperatorCase& on) const {
    std::vector<std::int32_t> ends(sizes.size());
    std::inclusive_scan(sizes.begin(), sizes.end(), ends.begin());
    return int_tensor(on, ends);
  }
};

// Rows end below, at and beyond the kernel's tiles of 128 and pairs of them. Widths end within
// tiles of 256 columns and stages of 128 summed numbers.
const Groups kGroups[] = {{{0}, 16, 16},
                          {{5}, 16, 16},
                          {{0, 1, 0, 127, 128, 129, 0}, 48, 80},
                          {{255, 256, 257}, 128, 256},
                          {{15, 16, 17, 200, 0, 3}, 144, 272},
                          {{400, 1, 300}, 1040, 528}};

Fp8Operand rows_of(const at::Tensor& x, Fp8Format format) {
  const at::Tensor scale = make_fp8_scale(x);
  return {fp8_cast(x, scale, {.format = format, .rows = true}).rows, scale};
}

Fp8Matrices matrices_of(const at::Tensor& weight) {
  const at::Tensor scales = make_fp8_scale(weight);
  return {fp8_cast(weight, scales, {.rows = true}).rows, scales};
}

at::Tensor values_of(const at::Tensor& codes, const at::Tensor& scale) {
  return codes.cpu().to(at::kFloat).to(at::kDouble) * scale[0].cpu().item<double>();
}

at::Tensor product_of(const Fp8Operand& left, const Fp8Matrices& right, const Groups& g) {
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < g.num_groups(); ++e) {
    const std::int64_t rows = g.sizes[static_cast<std::size_t>(e)];
    parts.push_back(at::matmul(values_of(left.codes.narrow(0, begin, rows), left.scale),
                               values_of(right.codes[e], right.scales[e]).t()));
    begin += rows;
  }
  return at::cat(parts);
}

// Hopper's tensor cores sum with 14 bits (fp8_linear_test.cpp). Each step of 32 terms loses up to
// 2^-14 of the sum so far.
double tolerance_of(const OperatorCase& on, std::int64_t inner) {
  const double of_steps = static_cast<double>(inner) / 32 * 0x1p-14;
  return on.device.is_cpu() ? on.tolerance : std::max({on.tolerance, 2e-3, of_steps});
}

TEST_P(Fp8GroupedMatmul, TheProductIsThatOfTheRoundedNumbers) {
  const OperatorCase& on = GetParam();
  for (const Groups& g : kGroups) {
    const at::Tensor weight = random_tensor(on, {g.num_groups(), g.columns, g.inner}, "weight");
    for (std::int64_t e = 0; e < g.num_groups(); ++e) weight[e] *= 1.0 + static_cast<double>(e % 3);
    const Fp8Matrices right = matrices_of(weight);
    for (const Fp8Format format : {Fp8Format::kE4M3, Fp8Format::kE5M2}) {
      const Fp8Operand left = rows_of(random_tensor(on, {g.num_rows(), g.inner}, "left"), format);
      poison_free_memory(on);
      expect_close(fp8_grouped_matmul(left, right, g.ends(on), on.dtype, {}),
                   product_of(left, right, g), tolerance_of(on, g.inner),
                   std::to_string(g.num_rows()) + " rows");
    }
  }
}

TEST_P(Fp8GroupedMatmul, ManyTilesMatchTheFormula) {
  const OperatorCase& on = GetParam();
  const Groups g = on.device.is_cuda() ? Groups{{2500, 0, 900, 4100}, 2048, 1408}
                                       : Groups{{40, 0, 60, 30}, 64, 96};
  const Fp8Operand left =
      rows_of(random_tensor(on, {g.num_rows(), g.inner}, "left"), Fp8Format::kE4M3);
  const Fp8Matrices right =
      matrices_of(random_tensor(on, {g.num_groups(), g.columns, g.inner}, "weight"));
  expect_close(fp8_grouped_matmul(left, right, g.ends(on), on.dtype, {}),
               product_of(left, right, g), tolerance_of(on, g.inner), "many tiles");
}

TEST_P(Fp8GroupedMatmul, AnotherGroupsNanStaysThere) {
  const OperatorCase& on = GetParam();
  const Groups g{{70, 1, 70}, 128, 256};
  const at::Tensor weight = random_tensor(on, {3, g.columns, g.inner}, "weight");
  weight[1][5][7] = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor broken =
      fp8_grouped_matmul(rows_of(random_tensor(on, {141, g.inner}, "left"), Fp8Format::kE4M3),
                         matrices_of(weight), g.ends(on), on.dtype, {})
          .isnan();
  EXPECT_TRUE(broken[70].all().item<bool>());
  EXPECT_EQ(broken.sum().item<std::int64_t>(), g.columns);
}

TEST_P(Fp8GroupedMatmul, MatricesHaveTheCodesAndScalesOfEachAlone) {
  const OperatorCase& on = GetParam();
  const at::Tensor all = random_tensor(on, {3, 144, 80}, "weight");
  all[1] *= 100;
  all[2].zero_();
  const at::Tensor scales = make_fp8_scale(all);
  const Fp8Copies copies = fp8_cast(all, scales, {.rows = true, .columns = true});
  const Fp8Copies again = fp8_cast(all, scales, {.columns = true, .has_known_scale = true});
  for (std::int64_t e = 0; e < 3; ++e) {
    const at::Tensor scale = make_fp8_scale(all[e]);
    const Fp8Copies one = fp8_cast(all[e], scale, {.rows = true, .columns = true});
    EXPECT_TRUE(scales[e].narrow(0, 0, 2).equal(scale));
    EXPECT_TRUE(copies.rows[e].view(at::kByte).equal(one.rows.view(at::kByte)));
    EXPECT_TRUE(copies.columns[e].view(at::kByte).equal(one.columns.view(at::kByte)));
    EXPECT_TRUE(again.columns[e].view(at::kByte).equal(one.columns.view(at::kByte)));
  }
}

TEST_P(Fp8GroupedMatmul, ShapesThatDoNotMatchAreRefused) {
  const OperatorCase& on = GetParam();
  const Fp8Operand left = rows_of(random_tensor(on, {4, 32}, "left"), Fp8Format::kE4M3);
  const Fp8Matrices right = matrices_of(random_tensor(on, {2, 16, 48}, "weight"));
  EXPECT_THROW(fp8_grouped_matmul(left, right, int_tensor(on, {2, 4}), on.dtype, {}), Error);
}

}  // namespace
}  // namespace packtrain::fp8_grouped_matmul_test
