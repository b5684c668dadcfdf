// Tests experts' gated activations together with their products. Products are compared with
// float64, group by group. Activations are compared with activation.h, which has its own test.
#include "models/ops/experts/grouped_glu_gemm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::grouped_glu_gemm_test {
namespace {

class GroupedGluGemmOf : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, GroupedGluGemmOf, testing::ValuesIn(operator_cases()), case_name);

constexpr Activation kSwiglu{ActivationKind::kSilu, /*gated=*/true};

struct Groups {
  std::vector<std::int32_t> sizes;
  std::int64_t width;
  std::int64_t inner;

  std::int64_t num_groups() const { return static_cast<std::int64_t>(sizes.size()); }
  std::int64_t num_rows() const { return std::reduce(sizes.begin(), sizes.end(), 0); }
  std::string text() const {
    return std::to_string(num_groups()) + " groups of " + std::to_string(num_rows()) + " rows, " +
           std::to_string(width) + " x " + std::to_string(inner);
  }
  at::Tensor ends(const OperatorCase& on) const {
    std::vector<std::int32_t> ends(sizes.size());
    std::inclusive_scan(sizes.begin(), sizes.end(), ends.begin());
    return int_tensor(on, ends);
  }
};

// Rows are below, at and beyond a tile of 128. Some inner widths fill tiles of 96 and 128, others
// do not. The last three have widths that no kernel takes in one launch.
const Groups kGroups[] = {
    {{5}, 64, 8},
    {{0, 1, 0, 127, 128, 129, 0}, 128, 96},
    {{300, 0, 3, 64}, 192, 200},
    {{260, 40}, 256, 384},
    {{130, 1, 90}, 448, 136},
    {{0, 0}, 64, 16},
    {{70, 20}, 40, 24},
    {{70, 20}, 64, 5},
    {{7, 2}, 3, 2},
};

at::Tensor products(const at::Tensor& rows, const at::Tensor& matrices, const Groups& g) {
  const at::Tensor r = wide_copy(rows);
  const at::Tensor m = wide_copy(matrices);
  at::Tensor all = at::zeros({g.num_rows(), matrices.size(2)}, at::kDouble);
  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < g.num_groups(); ++e) {
    const std::int64_t count = g.sizes[static_cast<std::size_t>(e)];
    all.narrow(0, begin, count).copy_(at::matmul(r.narrow(0, begin, count), m[e]));
    begin += count;
  }
  return all;
}

struct Case {
  at::Tensor rows;
  at::Tensor grad;
  at::Tensor up;
  at::Tensor down;

  Case(const OperatorCase& on, const Groups& g)
      : rows(random_tensor(on, {g.num_rows(), g.width}, "rows")),
        grad(random_tensor(on, {g.num_rows(), g.width}, "grad")),
        up(random_tensor(on, {g.num_groups(), 2 * g.inner, g.width}, "up")),
        down(random_tensor(on, {g.num_groups(), g.width, g.inner}, "down")) {}
};

void expect_forward(const OperatorCase& on, const Groups& g, const Activation& activation,
                    const Case& c) {
  poison_free_memory(on);
  const GroupedGluGemm made = grouped_glu_gemm_forward(c.rows, c.up, g.ends(on), activation, {});
  EXPECT_EQ(made.y.scalar_type(), on.dtype);
  expect_close(made.x, products(c.rows, c.up.transpose(1, 2), g), on.tolerance, g.text() + ", x");
  const at::Tensor x = wide_copy(made.x).to(at::kFloat);
  expect_close(made.y, activation_forward(x, activation), on.tolerance, g.text() + ", y");
}

void expect_backward(const OperatorCase& on, const Groups& g, const Activation& activation,
                     const Case& c) {
  const at::Tensor x = random_tensor(on, {g.num_rows(), 2 * g.inner}, "x") * 4;
  poison_free_memory(on);
  const GroupedGluGemmGradients got =
      grouped_glu_gemm_backward(c.grad, c.down, x, g.ends(on), activation, {});
  const at::Tensor dy = products(c.grad, c.down, g).to(at::kFloat);
  const at::Tensor y = at::empty_like(dy);
  const at::Tensor dx =
      activation_backward(dy, wide_copy(x).to(at::kFloat), activation, /*recomputed_output=*/y);
  expect_close(got.x, dx, on.tolerance, g.text() + ", d x");
  expect_close(got.y, y, on.tolerance, g.text() + ", y again");
  expect_close(got.dots.sum(1), at::sum(dy * y, 1), on.tolerance, g.text() + ", dots");
}

TEST_P(GroupedGluGemmOf, MatchProductsAndActivations) {
  const OperatorCase& on = GetParam();
  for (const Groups& g : kGroups) {
    const Case c(on, g);
    expect_forward(on, g, kSwiglu, c);
    expect_backward(on, g, kSwiglu, c);
  }
}

TEST_P(GroupedGluGemmOf, HaveEveryActivation) {
  const OperatorCase& on = GetParam();
  const Groups g{{40, 0, 150}, 128, 104};
  const Case c(on, g);
  for (const ActivationKind kind :
       {ActivationKind::kGeluTanh, ActivationKind::kGeluErf, ActivationKind::kClampedSwish}) {
    expect_forward(on, g, {kind, true}, c);
    expect_backward(on, g, {kind, true}, c);
  }
}

TEST_P(GroupedGluGemmOf, ManyTilesMatch) {
  const OperatorCase& on = GetParam();
  if (!on.device.is_cuda()) GTEST_SKIP() << "more tiles than a GPU has processors";
  for (const Groups& g : {Groups{{700, 0, 2500, 64, 1}, 512, 1408}, Groups{{5000}, 1024, 968}}) {
    const Case c(on, g);
    expect_forward(on, g, kSwiglu, c);
    expect_backward(on, g, kSwiglu, c);
  }
}

TEST_P(GroupedGluGemmOf, ARowsNanStaysThere) {
  const OperatorCase& on = GetParam();
  const Groups g{{70, 70}, 128, 96};
  const Case c(on, g);
  const at::Tensor x = random_tensor(on, {g.num_rows(), 2 * g.inner}, "x");
  c.rows[70].fill_(std::numeric_limits<double>::quiet_NaN());
  c.grad[70].fill_(std::numeric_limits<double>::infinity());
  const GroupedGluGemm made = grouped_glu_gemm_forward(c.rows, c.up, g.ends(on), kSwiglu, {});
  const GroupedGluGemmGradients back =
      grouped_glu_gemm_backward(c.grad, c.down, x, g.ends(on), kSwiglu, {});
  for (const at::Tensor& all : {made.x, made.y, back.x, back.dots}) {
    const at::Tensor broken = all.isfinite().logical_not();
    EXPECT_GT(broken[70].sum().item<std::int64_t>(), 0);
    EXPECT_EQ(broken.sum().item<std::int64_t>(), broken[70].sum().item<std::int64_t>());
  }
}

TEST_P(GroupedGluGemmOf, TwoRunsHaveEqualBits) {
  const OperatorCase& on = GetParam();
  const Groups g{{200, 33, 150}, 256, 264};
  const Case c(on, g);
  const GroupedGluGemm first = grouped_glu_gemm_forward(c.rows, c.up, g.ends(on), kSwiglu, {});
  const GroupedGluGemm second = grouped_glu_gemm_forward(c.rows, c.up, g.ends(on), kSwiglu, {});
  EXPECT_TRUE(first.x.equal(second.x) && first.y.equal(second.y));
  const GroupedGluGemmGradients one =
      grouped_glu_gemm_backward(c.grad, c.down, first.x, g.ends(on), kSwiglu, {});
  const GroupedGluGemmGradients two =
      grouped_glu_gemm_backward(c.grad, c.down, first.x, g.ends(on), kSwiglu, {});
  EXPECT_TRUE(one.x.equal(two.x) && one.y.equal(two.y) && one.dots.equal(two.dots));
}

}  // namespace
}  // namespace packtrain::grouped_glu_gemm_test
