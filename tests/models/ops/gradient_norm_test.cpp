// The end of a step against formulas in float64, per device and dtype.
#include "models/ops/gradient_norm/gradient_norm.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::gradient_norm_test {
namespace {

class GradientNorm : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, GradientNorm, testing::ValuesIn(operator_cases()), case_name);

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_P(GradientNorm, PartialsAddUpToTheSumOfSquares) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t numel : {0, 1, 7, 4096, 130001, 5000000}) {
    const at::Tensor values = random_tensor(on, {numel + 1}, "values");
    for (const std::int64_t offset : {0, 1}) {  // 1: unaligned
      const at::Tensor part = values.slice(0, offset, offset + numel);
      const double want = part.to(at::kDouble).square().sum().item<double>();
      const at::Tensor partials = squared_norm_partials(part);
      const double got = partials.to(at::kDouble).sum().item<double>();
      EXPECT_NEAR(got, want, 1e-5 * want) << numel << " elements from " << offset;
      EXPECT_TRUE(squared_norm_partials(part).equal(partials)) << "not repeatable";
    }
  }
}

at::Tensor floats(const OperatorCase& on, const std::vector<float>& values) {
  return at::tensor(values, at::TensorOptions(at::kFloat)).to(on.device);
}

at::Tensor scalar(const OperatorCase& on, double value) {
  return at::full({}, value, at::TensorOptions(at::kFloat).device(on.device));
}

std::vector<float> on_host(const at::Tensor& tensor) {
  const at::Tensor copy = tensor.to(at::kCPU, at::kFloat).contiguous();
  return {copy.const_data_ptr<float>(), copy.const_data_ptr<float>() + copy.numel()};
}

TEST_P(GradientNorm, SumsAreInOneTensorWithLossRequestsAndDetails) {
  const OperatorCase& on = GetParam();
  const at::Tensor partials = floats(on, {1, 2, 4, 8});
  EXPECT_EQ(on_host(step_sums(partials, scalar(on, 2.5), {1, 0, 1}, {})),
            (std::vector<float>{2.5, 15, 1, 0, 1}));
  EXPECT_EQ(on_host(step_sums(partials, scalar(on, 2.5), {0, 1, 0}, floats(on, {7, 8}))),
            (std::vector<float>{2.5, 15, 0, 1, 0, 7, 8}));
}

TEST_P(GradientNorm, ScalarsFollowTheFormula) {
  const OperatorCase& on = GetParam();
  for (const double norm : {0.0, 0.5, 3.0, 1e10}) {
    for (const double max_norm : {0.0, 1.0, 10.0}) {
      const auto squared = static_cast<float>(norm * norm);
      const StepScalars scalars = step_scalars(floats(on, {2.5, squared, 2, 3, 4, 7, 8}), max_norm);
      const auto rounded = static_cast<float>(norm);
      EXPECT_EQ(on_host(scalars.outcome), (std::vector<float>{2.5, rounded, 0, 2, 3, 4, 7, 8}));
      const double want = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
      EXPECT_NEAR(on_host(scalars.clip_factor).front(), want, 1e-6 * want);
      EXPECT_EQ(on_host(scalars.skip), std::vector<float>{0});
    }
  }
}

TEST_P(GradientNorm, SkipsWhatIsNotFinite) {
  const OperatorCase& on = GetParam();
  for (const auto& [loss, squared] : {std::pair{kNan, 1.0},
                                      {kInfinity, 1.0},
                                      {1.0, kNan},
                                      {1.0, kInfinity},
                                      {-kInfinity, kNan}}) {
    const at::Tensor sums =
        floats(on, {static_cast<float>(loss), static_cast<float>(squared), 0, 0, 0});
    const StepScalars scalars = step_scalars(sums, 1.0);
    EXPECT_EQ(on_host(scalars.skip), std::vector<float>{1});
    EXPECT_EQ(on_host(scalars.outcome)[2], 1);
  }
  const at::Tensor values = random_tensor(on, {100000}, "values");
  values.select(0, 99999).fill_(kNan);
  const at::Tensor sums = step_sums(squared_norm_partials(values), scalar(on, 1), {}, {});
  EXPECT_EQ(on_host(step_scalars(sums, 1.0).skip), std::vector<float>{1});
}

}  // namespace
}  // namespace packtrain::gradient_norm_test
