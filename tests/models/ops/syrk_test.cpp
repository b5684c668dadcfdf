// Symmetric products against float64, per device and dtype.
#include "models/ops/syrk/syrk.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>

#include <cmath>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/models/cases.h"

namespace packtrain::syrk_test {
namespace {

class Syrk : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Syrk, testing::ValuesIn(operator_cases()), case_name);

struct Size {
  std::int64_t count, n, k;
};

// One tile and less, and even and odd numbers of tiles. The last one has enough tiles for the
// kernel to be chosen. 2 x 5 matrices are the kernel's in no layout.
constexpr Size kSizes[] = {{1, 8, 8},     {2, 5, 3},     {3, 120, 64},  {1, 136, 72},
                           {2, 256, 192}, {1, 392, 200}, {2, 648, 128}, {1, 1536, 136}};

bool kernel_takes(const OperatorCase& on, const Size& size, bool transposed) {
  const bool has_layout =
      size.n % 8 == 0 && size.k % 8 == 0 && (!transposed || size.count == 1 || size.k % 64 == 0);
  return on.device.is_cuda() && on.dtype == at::kBFloat16 && has_layout && has_syrk_cuda();
}

at::Tensor random_symmetric(const OperatorCase& on, const Size& size) {
  const at::Tensor half = random_tensor(on, {size.count, size.n, size.n}, "addend");
  return half + half.transpose(1, 2);
}

struct Problem {
  at::Tensor x;
  SyrkTerms terms;
  at::Tensor want;  // float64
};

Problem problem_of(const OperatorCase& on, const Size& size, bool transposed, bool adds) {
  const std::int64_t rows = transposed ? size.k : size.n;
  const std::int64_t columns = transposed ? size.n : size.k;
  Problem problem{random_tensor(on, {size.count, rows, columns}, "x"),
                  {.transposed = transposed, .scale = -1.5},
                  {}};
  if (adds) problem.terms.addend = random_symmetric(on, size);
  const at::Tensor x = wide_copy(problem.x);
  const at::Tensor other = x.transpose(1, 2);
  problem.want = at::matmul(transposed ? other : x, transposed ? x : other) * -1.5;
  if (adds) problem.want += wide_copy(problem.terms.addend);
  return problem;
}

at::Tensor poisoned(const OperatorCase& on, const Size& size) {
  return at::full({size.count, size.n, size.n}, std::nan(""), on.options());
}

void expect_product(const OperatorCase& on, const Size& size, bool transposed, bool adds) {
  const Problem problem = problem_of(on, size, transposed, adds);
  const at::Tensor out = poisoned(on, size);
  syrk_out(out, problem.x, problem.terms, {});
  expect_close(out, problem.want, on.tolerance, "product");
  if (!kernel_takes(on, size, transposed)) return;
  const at::Tensor by_kernel = poisoned(on, size);
  syrk_cuda(by_kernel, problem.x, problem.terms);
  expect_close(by_kernel, problem.want, on.tolerance, "product of the kernel");
  EXPECT_TRUE(by_kernel.equal(by_kernel.transpose(1, 2)));
}

TEST_P(Syrk, IsTheProductInFloat64) {
  for (const Size& size : kSizes) {
    for (const bool transposed : {false, true}) {
      for (const bool adds : {false, true}) {
        SCOPED_TRACE(std::to_string(size.count) + " of " + std::to_string(size.n) + " from " +
                     std::to_string(size.k) + (transposed ? ", transposed" : ""));
        expect_product(GetParam(), size, transposed, adds);
      }
    }
  }
}

TEST_P(Syrk, HasTheSameBitsAgain) {
  const OperatorCase& on = GetParam();
  const Size size{1, 1536, 64};
  const Problem problem = problem_of(on, size, false, true);
  const at::Tensor first = poisoned(on, size);
  const at::Tensor second = poisoned(on, size);
  syrk_out(first, problem.x, problem.terms, {.enabled = false});
  syrk_out(second, problem.x, problem.terms, {.enabled = false});
  EXPECT_TRUE(first.equal(second));
}

TEST_P(Syrk, NumbersThatAreNotFiniteStayInTheirRowsAndColumns) {
  const OperatorCase& on = GetParam();
  const Size size{1, 264, 72};
  Problem problem = problem_of(on, size, false, false);
  problem.x[0][200][3] = std::nan("");
  std::vector<at::Tensor> results = {poisoned(on, size)};
  syrk_out(results.back(), problem.x, problem.terms, {});
  if (kernel_takes(on, size, false)) {
    results.push_back(poisoned(on, size));
    syrk_cuda(results.back(), problem.x, problem.terms);
  }
  for (const at::Tensor& result : results) {
    const at::Tensor is_nan = result[0].isnan();
    EXPECT_EQ(is_nan.sum().item<std::int64_t>(), 2 * size.n - 1);
    EXPECT_TRUE(is_nan[200].all().item<bool>());
  }
}

TEST_P(Syrk, OtherShapesAndTypesAreErrors) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = at::empty({1, 4, 6}, on.options());
  const at::Tensor square = at::empty({1, 4, 4}, on.options());
  EXPECT_THROW(syrk_out(square, x, {.transposed = true}, {}), Error);
  EXPECT_THROW(syrk_out(square, x.transpose(1, 2), {}, {}), Error);
  EXPECT_THROW(syrk_out(square, x, {.addend = x}, {}), Error);
  EXPECT_THROW(syrk_out(square.to(at::kDouble), x.to(at::kDouble), {}, {}), Error);
  EXPECT_THROW(syrk_out(square[0], x[0], {}, {}), Error);
}

}  // namespace
}  // namespace packtrain::syrk_test
