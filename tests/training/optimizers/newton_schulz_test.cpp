// Newton-Schulz against the same iterations in float64, one matrix after another.
#include "training/optimizers/newton_schulz.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/training/optimizers/shard.h"

namespace packtrain::test {
namespace {

// As the paper writes it.
at::Tensor reference_of(const at::Tensor& matrix) {
  at::Tensor x = matrix.to(at::kCPU, at::kDouble);
  x = x / x.norm().clamp_min(1e-7);
  const bool is_tall = x.size(0) > x.size(1);
  if (is_tall) x = x.t();
  for (int step = 0; step < 5; ++step) {
    const at::Tensor a = at::mm(x, x.t());
    const at::Tensor b = a * -4.7750 + at::mm(a, a) * 2.0315;
    x = x * 3.4445 + at::mm(b, x);
  }
  return is_tall ? x.t().contiguous() : x;
}

at::Tensor sample(std::int64_t count, std::int64_t rows, std::int64_t columns) {
  return at::randn({count, rows, columns}, at::kFloat).to(test_device());
}

double tolerance() {
  return test_device().is_cuda() ? 2e-3 : 2e-5;  // float32 products of CUDA may be those of TF32
}

TEST(NewtonSchulz, EqualsTheFormulaInFloat64ForAnyShape) {
  at::manual_seed(1);
  const std::vector<std::array<std::int64_t, 3>> shapes = {{1, 32, 32}, {1, 16, 48}, {1, 48, 16},
                                                           {3, 24, 8},  {5, 8, 24},  {2, 1, 7}};
  for (const auto& [count, rows, columns] : shapes) {
    const at::Tensor x = sample(count, rows, columns);
    const at::Tensor before = x.clone();
    newton_schulz(x, 2.5, {.enabled = false});
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_TRUE(at::allclose(x[i].cpu().to(at::kDouble), reference_of(before[i]) * 2.5,
                               tolerance(), tolerance()))
          << rows << " x " << columns << ", number " << i;
    }
  }
}

TEST(NewtonSchulz, BringsSingularValuesNearOneForAnyNorm) {
  at::manual_seed(2);
  for (const double norm : {1e-6, 1.0, 1e6}) {
    const at::Tensor x = sample(1, 40, 64).mul_(norm);
    newton_schulz(x, 1, {.enabled = false});
    const at::Tensor values = at::linalg_svdvals(x[0].cpu());
    EXPECT_GT(values.min().item<double>(), 0.5) << norm;
    EXPECT_LT(values.max().item<double>(), 1.3) << norm;
  }
}

TEST(NewtonSchulz, LeavesZerosZero) {
  const at::Tensor x = at::zeros({2, 4, 6}, at::kFloat).to(test_device());
  newton_schulz(x, 1, {.enabled = false});
  EXPECT_EQ(x.abs().max().item<float>(), 0);
}

TEST(NewtonSchulz, MatricesOfABatchAreThoseOfEachAlone) {
  at::manual_seed(3);
  // More than one batch of the largest size.
  const at::Tensor together = sample(40, 256, 512);
  const at::Tensor alone = together.clone();
  newton_schulz(together, 1, {.enabled = false});
  for (const std::int64_t i : {0, 31, 32, 39}) {
    newton_schulz(alone.narrow(0, i, 1), 1, {.enabled = false});
    EXPECT_TRUE(at::allclose(together[i], alone[i], tolerance(), tolerance())) << i;
  }
}

TEST(NewtonSchulz, InBFloat16IsNearTheFormula) {
  at::manual_seed(4);
  const at::Tensor x = sample(1, 64, 96).to(at::kBFloat16);
  const at::Tensor want = reference_of(x[0]);
  newton_schulz(x, 1, {.enabled = false});
  const double error = (x[0].cpu().to(at::kDouble) - want).norm().item<double>();
  EXPECT_LT(error / want.norm().item<double>(), 0.05);
}

TEST(NewtonSchulz, RefusesWhatIsNoBatchOfMatrices) {
  EXPECT_THROW(newton_schulz(at::zeros({4, 4}, at::kFloat), 1, {}), Error);
  EXPECT_THROW(newton_schulz(at::zeros({1, 4, 4}, at::kDouble), 1, {}), Error);
  EXPECT_THROW(newton_schulz(at::zeros({1, 4, 6}, at::kFloat).transpose(1, 2), 1, {}), Error);
}

}  // namespace
}  // namespace packtrain::test
