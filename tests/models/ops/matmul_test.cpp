// Matrix products against float64, per device and dtype.
#include "models/ops/matmul/matmul.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>

#include <cmath>

#include "framework/core/error.h"
#include "tests/models/cases.h"

namespace packtrain::matmul_test {
namespace {

class Matmul : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Matmul, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kShapes[][3] = {  // M, K, N
    {1, 1, 1}, {1, 8, 16}, {7, 5, 3}, {130, 64, 24}, {8, 1, 40}, {33, 129, 17}, {300, 512, 96}};

at::Tensor wide(const at::Tensor& x) {
  return x.to(at::kCPU, at::kDouble);
}

// The same values, lying column by column.
at::Tensor by_columns(const at::Tensor& x) {
  return x.t().contiguous().t();
}

// The same values, in rows of a wider buffer that starts one element late.
at::Tensor in_wider_rows(const at::Tensor& x) {
  const at::Tensor buffer = at::full({x.size(0), x.size(1) + 3}, std::nan(""), x.options());
  const at::Tensor rows = buffer.narrow(1, 1, x.size(1));
  rows.copy_(x);
  return rows;
}

at::Tensor poisoned(at::IntArrayRef shape, at::TensorOptions options) {
  return at::full(shape, std::nan(""), options);
}

std::vector<at::ScalarType> outputs_of(const OperatorCase& on) {
  if (on.dtype == at::kFloat) return {at::kFloat};
  return {at::kBFloat16, at::kFloat};
}

// Sums in float32, so that a float32 output is nearly exact.
double tolerance_of(const OperatorCase& on, at::ScalarType output) {
  return output == at::kFloat ? 1e-5 : on.tolerance;
}

TEST_P(Matmul, MultipliesMatricesOfAnyLayout) {
  const OperatorCase& on = GetParam();
  for (const auto& [m, k, n] : kShapes) {
    const at::Tensor a = random_tensor(on, {m, k}, "left");
    const at::Tensor b = random_tensor(on, {k, n}, "right");
    const at::Tensor want = at::matmul(wide(a), wide(b));
    for (const at::Tensor& left : {a, by_columns(a), in_wider_rows(a)}) {
      for (const at::Tensor& right : {b, by_columns(b), in_wider_rows(b)}) {
        for (const at::ScalarType output : outputs_of(on)) {
          const at::Tensor out = poisoned({m, n}, on.options().dtype(output));
          gemm_out(out, left, right, {}, {});
          expect_close(out, want, tolerance_of(on, output), "product");
        }
      }
    }
  }
}

TEST_P(Matmul, AddsAMatrixAndABias) {
  const OperatorCase& on = GetParam();
  for (const auto& [m, k, n] : kShapes) {
    const at::Tensor left = random_tensor(on, {m, k}, "left");
    const at::Tensor right = random_tensor(on, {k, n}, "right");
    const at::Tensor product = at::matmul(wide(left), wide(right));
    for (const at::ScalarType output : outputs_of(on)) {
      const OperatorCase out_case{on.device, output, tolerance_of(on, output)};
      const at::Tensor addend = random_tensor(out_case, {m, n}, "addend");
      const at::Tensor bias = random_tensor(out_case, {n}, "bias");
      const at::Tensor out = poisoned({m, n}, addend.options());
      gemm_out(out, left, right, {.addend = in_wider_rows(addend)}, {});
      expect_close(out, product + wide(addend), out_case.tolerance, "addend");
      gemm_out(out, left, right, {.bias = bias}, {});
      expect_close(out, product + wide(bias), out_case.tolerance, "bias");
      gemm_out(out, left, right, {.addend = addend, .bias = bias}, {});
      expect_close(out, product + wide(addend) + wide(bias), out_case.tolerance, "both");
      gemm_out(addend, left, right, {.addend = addend}, {});
      expect_close(addend, out - wide(bias).to(out.device()), out_case.tolerance, "in place");
    }
  }
}

TEST_P(Matmul, ScalesTheProductAlone) {
  const OperatorCase& on = GetParam();
  for (const auto& [m, k, n] : kShapes) {
    const at::Tensor left = random_tensor(on, {m, k}, "left");
    const at::Tensor right = random_tensor(on, {k, n}, "right");
    const at::Tensor product = at::matmul(wide(left), wide(right)) * -1.75;
    for (const at::ScalarType output : outputs_of(on)) {
      const OperatorCase out_case{on.device, output, tolerance_of(on, output)};
      const at::Tensor addend = random_tensor(out_case, {m, n}, "addend");
      const at::Tensor out = poisoned({m, n}, addend.options());
      gemm_out(out, left, right, {.scale = -1.75}, {});
      expect_close(out, product, out_case.tolerance, "scaled");
      gemm_out(out, left, right, {.addend = addend, .scale = -1.75}, {});
      expect_close(out, product + wide(addend), out_case.tolerance, "addend");
    }
  }
}

// A small addend moves the mean of many sums by its own mean. It would not if the product were
// rounded before the addition, as cuBLAS does with an addend of bfloat16 only.
TEST_P(Matmul, WhatIsAddedIsNotRoundedAway) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t inner : {64, 1000, 4096}) {
    const at::Tensor left = random_tensor(on, {512, inner}, "left");
    const at::Tensor right = random_tensor(on, {inner, 384}, "right");
    const at::Tensor product = at::matmul(wide(left), wide(right));
    const double small = std::sqrt(static_cast<double>(inner)) / 1024;
    for (const at::ScalarType output : outputs_of(on)) {
      const at::Tensor out = at::full({512, 384}, small, on.options().dtype(output));
      const auto mean_moved_by = [&] { return (wide(out) - product).mean().item<double>(); };
      if (output == at::kFloat || !on.device.is_cuda()) {
        gemm_out(out, left, right, {.addend = out}, {});
        EXPECT_NEAR(mean_moved_by(), small, small / 10) << "an addend to " << inner;
      }
      gemm_out(out, left, right, {.bias = at::full({384}, small, out.options())}, {});
      EXPECT_NEAR(mean_moved_by(), small, small / 10) << "a bias to " << inner;
    }
  }
}

TEST_P(Matmul, WritesNothingOutsideItsRows) {
  const OperatorCase& on = GetParam();
  const at::Tensor left = random_tensor(on, {9, 16}, "left");
  const at::Tensor right = random_tensor(on, {16, 8}, "right");
  const at::Tensor buffer = at::full({9, 24}, 5.0, on.options());
  gemm_out(buffer.narrow(1, 8, 8), left, right, {}, {});
  expect_close(buffer.narrow(1, 8, 8), at::matmul(wide(left), wide(right)), on.tolerance, "out");
  EXPECT_TRUE(buffer.narrow(1, 0, 8).eq(5.0).all().item<bool>());
  EXPECT_TRUE(buffer.narrow(1, 16, 8).eq(5.0).all().item<bool>());
}

TEST_P(Matmul, OfNothingIsTheSumOfTheRest) {
  const OperatorCase& on = GetParam();
  const at::Tensor bias = random_tensor(on, {4}, "bias");
  const at::Tensor addend = random_tensor(on, {3, 4}, "addend");
  const at::Tensor left = at::empty({3, 0}, on.options());
  const at::Tensor right = at::empty({0, 4}, on.options());
  expect_close(gemm(left, right, {}, {}), wide(addend) * 0, 0, "zero");
  expect_close(gemm(left, right, {.addend = addend, .bias = bias}, {}), wide(addend) + wide(bias),
               on.tolerance, "addend and bias");
  EXPECT_EQ(gemm(at::empty({0, 5}, on.options()), at::empty({5, 4}, on.options()), {}, {}).size(0),
            0);
}

TEST_P(Matmul, HasEqualBitsWithoutTimingAfterAnyOtherProducts) {
  const OperatorCase& on = GetParam();
  const at::Tensor left = random_tensor(on, {300, 512}, "left");
  const at::Tensor right = by_columns(random_tensor(on, {512, 96}, "right"));
  const GemmTiming none{.enabled = false};
  const at::Tensor first = gemm(left, right, {}, none);
  expect_close(gemm(left, right, {}, {}), wide(first), on.tolerance, "a timed choice");
  gemm(left.narrow(0, 0, 290), right, {}, none);  // the same bucket of tokens
  EXPECT_TRUE(gemm(left, right, {}, none).equal(first));
}

TEST_P(Matmul, IsTimedWhenThereIsTimeForItAndRightBefore) {
  const OperatorCase& on = GetParam();
  const at::Tensor left = random_tensor(on, {300, 512}, "left");
  const at::Tensor right = by_columns(random_tensor(on, {512, 104}, "right"));
  const at::Tensor wanted = at::matmul(wide(left), wide(right));
  const std::int64_t a_product = on.device.is_cuda() ? 1 : 0;
  const std::int64_t before = num_timed_matmuls();
  const GemmTiming no_time = limited_gemm_timing(0);
  for (int round = 0; round < 2; ++round) {
    expect_close(gemm(left, right, {}, no_time), wanted, on.tolerance, "the heuristics' first");
  }
  EXPECT_EQ(num_timed_matmuls(), before);
  expect_close(gemm(left, right, {}, {}), wanted, on.tolerance, "a timed choice");
  EXPECT_EQ(num_timed_matmuls(), before + a_product);
  const at::Tensor fewer = left.narrow(0, 0, 180);  // another bucket of tokens
  expect_close(gemm(fewer, right, {}, limited_gemm_timing(0)), wanted.narrow(0, 0, 180),
               on.tolerance, "the nearest choice");
  EXPECT_EQ(num_timed_matmuls(), before + a_product);
}

TEST_P(Matmul, RefusesWhatDoesNotFitNamingIt) {
  const OperatorCase& on = GetParam();
  const at::Tensor left = random_tensor(on, {2, 3}, "left");
  const auto message = [&](const at::Tensor& out, const at::Tensor& right) -> std::string {
    try {
      gemm_out(out, left, right, {}, {});
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  const std::string shapes =
      message(at::empty({2, 5}, on.options()), at::empty({4, 5}, on.options()));
  EXPECT_NE(shapes.find("[2, 3]"), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("[4, 5]"), std::string::npos) << shapes;
  const std::string dtypes =
      message(at::empty({2, 5}, on.options().dtype(at::kDouble)), at::empty({3, 5}, on.options()));
  EXPECT_NE(dtypes.find("DoubleType"), std::string::npos) << dtypes;
}

}  // namespace
}  // namespace packtrain::matmul_test
