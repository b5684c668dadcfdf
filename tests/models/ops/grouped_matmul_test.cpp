// Products of groups of rows against float64, group by group.
#include "models/ops/experts/grouped_matmul.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::grouped_matmul_test {
namespace {

class GroupedMatmul : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, GroupedMatmul, testing::ValuesIn(operator_cases()), case_name);

struct Groups {
  std::vector<std::int32_t> sizes;
  std::int64_t left;
  std::int64_t right;

  std::int64_t num_groups() const { return static_cast<std::int64_t>(sizes.size()); }
  std::int64_t num_rows() const { return std::reduce(sizes.begin(), sizes.end(), 0); }
  std::string text() const {
    return std::to_string(num_groups()) + " groups of " + std::to_string(num_rows()) + " rows, " +
           std::to_string(left) + " x " + std::to_string(right);
  }
  at::Tensor ends(const OperatorCase& on) const {
    std::vector<std::int32_t> ends(sizes.size());
    std::inclusive_scan(sizes.begin(), sizes.end(), ends.begin());
    return int_tensor(on, ends);
  }
};

// Rows are below, at and beyond the tile of a kernel. Some widths fill tiles, others do not.
const Groups kGroups[] = {
    {{5}, 8, 8},
    {{0, 1, 0, 63, 64, 65, 0}, 24, 40},
    {{15, 16, 17, 128, 200, 0, 3}, 136, 264},
    {{40, 300}, 256, 256},
    {{130, 1, 90}, 384, 520},
    {{70, 20}, 5, 3},
    {{70, 20}, 130, 258},
};

at::Tensor gradient_formula(const at::Tensor& left, const at::Tensor& right, const Groups& g) {
  const at::Tensor l = wide_copy(left);
  const at::Tensor r = wide_copy(right);
  at::Tensor want = at::zeros({g.num_groups(), g.left, g.right}, at::kDouble);
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < g.num_groups(); ++e) {
    const std::int64_t rows = g.sizes[static_cast<std::size_t>(e)];
    want[e] = at::matmul(l.narrow(0, begin, rows).t(), r.narrow(0, begin, rows));
    begin += rows;
  }
  return want;
}

void expect_gradient(const OperatorCase& on, const Groups& g, at::ScalarType dtype) {
  const at::Tensor left = random_tensor(on, {g.num_rows(), g.left}, "left");
  const at::Tensor right = random_tensor(on, {g.num_rows(), g.right}, "right");
  Parameter weight = random_parameter(on, {g.num_groups(), g.left, g.right}, "weight", dtype);
  const at::Tensor want = gradient_formula(left, right, g);
  // Sums are in float32 until they are written: products of bfloat16 are exact in it.
  const double tolerance = dtype == at::kFloat ? 1e-5 : on.tolerance;
  grouped_weight_gradient(weight, left, right, g.ends(on), {});
  expect_close(weight.grad, want, tolerance, g.text() + ", written");
  weight.accumulate = true;
  grouped_weight_gradient(weight, left, right, g.ends(on), {});
  expect_close(weight.grad, want * 2, tolerance, g.text() + ", added");
}

TEST_P(GroupedMatmul, WeightGradientsMatchTheFormula) {
  const OperatorCase& on = GetParam();
  for (const Groups& groups : kGroups) {
    expect_gradient(on, groups, at::kFloat);
    if (on.dtype != at::kFloat) expect_gradient(on, groups, on.dtype);
  }
}

TEST_P(GroupedMatmul, AnotherGroupsNanStaysThere) {
  const OperatorCase& on = GetParam();
  const Groups g{{70, 1, 70}, 128, 256};
  const at::Tensor left = random_tensor(on, {g.num_rows(), g.left}, "left");
  const at::Tensor right = random_tensor(on, {g.num_rows(), g.right}, "right");
  left[70].fill_(std::numeric_limits<double>::quiet_NaN());
  right[70].fill_(std::numeric_limits<double>::infinity());
  const Parameter weight =
      random_parameter(on, {g.num_groups(), g.left, g.right}, "weight", at::kFloat);
  grouped_weight_gradient(weight, left, right, g.ends(on), {});
  const at::Tensor broken = weight.grad.isfinite().logical_not();
  EXPECT_EQ(broken.select(0, 0).sum().item<std::int64_t>(), 0);
  EXPECT_EQ(broken.select(0, 1).sum().item<std::int64_t>(), g.left * g.right);
  EXPECT_EQ(broken.select(0, 2).sum().item<std::int64_t>(), 0);
}

TEST_P(GroupedMatmul, ManyTilesMatchTheFormula) {
  const OperatorCase& on = GetParam();
  if (!on.device.is_cuda()) GTEST_SKIP() << "more tiles than a GPU has processors";
  for (const Groups& groups : {Groups{{500, 0, 900, 64}, 2048, 1408}, Groups{{3000}, 1024, 3584}}) {
    expect_gradient(on, groups, at::kFloat);
  }
}

TEST_P(GroupedMatmul, TwoRunsHaveEqualBits) {
  const OperatorCase& on = GetParam();
  const Groups g{{200, 33, 150}, 136, 264};
  const at::Tensor left = random_tensor(on, {g.num_rows(), g.left}, "left");
  const at::Tensor right = random_tensor(on, {g.num_rows(), g.right}, "right");
  at::Tensor before;
  for (int i = 0; i < 3; ++i) {
    Parameter weight =
        random_parameter(on, {g.num_groups(), g.left, g.right}, "weight", at::kFloat);
    grouped_weight_gradient(weight, left, right, g.ends(on), {});
    weight.accumulate = true;
    grouped_weight_gradient(weight, left, right, g.ends(on), {});
    if (before.defined()) {
      EXPECT_TRUE(before.equal(weight.grad));
    }
    before = weight.grad;
  }
}

TEST_P(GroupedMatmul, RowsMatchTheFormula) {
  const OperatorCase& on = GetParam();
  for (const Groups& g : kGroups) {
    const at::Tensor rows = random_tensor(on, {g.num_rows(), g.left}, "rows");
    const at::Tensor matrices = random_tensor(on, {g.num_groups(), g.left, g.right}, "matrices");
    const at::Tensor got = grouped_matmul(rows, matrices, g.ends(on), {});
    std::int64_t begin = 0;
    for (std::int64_t e = 0; e < g.num_groups(); ++e) {
      const std::int64_t count = g.sizes[static_cast<std::size_t>(e)];
      const at::Tensor want =
          at::matmul(wide_copy(rows.narrow(0, begin, count)), wide_copy(matrices[e]));
      if (count > 0) expect_close(got.narrow(0, begin, count), want, on.tolerance, g.text());
      begin += count;
    }
  }
}

}  // namespace
}  // namespace packtrain::grouped_matmul_test
