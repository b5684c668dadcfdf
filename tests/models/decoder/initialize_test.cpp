#include "models/decoder/initialize.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/softplus.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/cases.h"

namespace packtrain {
namespace {

at::Tensor initial(const ParameterSpec& parameter, std::uint64_t seed, std::int64_t begin,
                   std::int64_t count) {
  const at::Tensor values = at::empty({count}, at::TensorOptions(at::kFloat));
  initialize(parameter, seed, begin, values);
  return values;
}

const ParameterSpec kMatrix{"layers.0.mlp.down.weight", {100, 300}};

TEST(Initialize, ARangeEqualsThatPartOfTheWhole) {
  const at::Tensor whole = initial(kMatrix, 7, 0, 30000);
  const at::Tensor parts = at::cat({initial(kMatrix, 7, 0, 1), initial(kMatrix, 7, 1, 12345),
                                    initial(kMatrix, 7, 12346, 30000 - 12346)});
  EXPECT_TRUE(at::equal(parts, whole));
}

TEST(Initialize, HasTheSpreadAskedFor) {
  ParameterSpec parameter = kMatrix;
  parameter.initialization.standard_deviation = 0.5;
  const at::Tensor values = initial(parameter, 7, 0, 30000);
  EXPECT_NEAR(values.mean().item<double>(), 0.0, 0.02);
  EXPECT_NEAR(values.std().item<double>(), 0.5, 0.02);
}

// A GPU's logarithm and cosine may round the last bit of a float64 the other way.
TEST(Initialize, IsTheSameOnEveryDeviceButForARareLastBit) {
  for (const OperatorCase& on : operator_cases()) {
    for (const std::int64_t count : {0, 1, 1000, 3'000'000}) {
      const at::Tensor values = at::empty({count}, on.options().dtype(at::kFloat)).fill_(NAN);
      initialize(kMatrix, 7, 12345, values);
      const at::Tensor here = values.cpu();
      const at::Tensor reference = initial(kMatrix, 7, 12345, count);
      EXPECT_TRUE(at::allclose(here, reference, /*rtol=*/1.2e-7, /*atol=*/0));
      EXPECT_LE(count - here.eq(reference).sum().item<std::int64_t>(), count / 100'000);
    }
  }
}

TEST(Initialize, SeedsAndNamesGiveDifferentValues) {
  ParameterSpec other = kMatrix;
  other.name = "layers.1.mlp.down.weight";
  EXPECT_FALSE(at::equal(initial(kMatrix, 7, 0, 100), initial(kMatrix, 8, 0, 100)));
  EXPECT_FALSE(at::equal(initial(kMatrix, 7, 0, 100), initial(other, 7, 0, 100)));
}

TEST(Initialize, LogarithmsOfUniformNumbersFillTheirRange) {
  const ParameterSpec spec{"A_log", {30000}, {Initialization::Kind::kLogOfUniform, 0, 0.01, 16}};
  const at::Tensor values = initial(spec, 7, 0, 30000).to(at::kDouble).exp();
  EXPECT_NEAR(values.mean().item<double>(), 8.0, 0.1);
  EXPECT_NEAR(values.std().item<double>(), 16 / std::sqrt(12.0), 0.1);
  EXPECT_GE(values.min().item<double>(), 0.0099);
  EXPECT_LE(values.max().item<double>(), 16.01);
}

TEST(Initialize, LogarithmsOfNumbersFromZeroAreFinite) {
  const ParameterSpec spec{"A_log", {300000}, {Initialization::Kind::kLogOfUniform, 0, 0, 16}};
  EXPECT_TRUE(initial(spec, 7, 0, 300000).isfinite().all().item<bool>());
}

TEST(Initialize, SoftplusOfItsInverseHasAUniformLogarithm) {
  const ParameterSpec spec{
      "dt_bias", {30000}, {Initialization::Kind::kInverseSoftplus, 0, 0.001, 0.1}};
  const at::Tensor steps = at::softplus(initial(spec, 7, 0, 30000).to(at::kDouble));
  EXPECT_NEAR(steps.log().mean().item<double>(), std::log(0.01), 0.02);
  EXPECT_NEAR(steps.min().item<double>(), 0.001, 1e-5);
  EXPECT_NEAR(steps.max().item<double>(), 0.1, 1e-3);
}

TEST(Initialize, ConstantsHaveTheirValue) {
  const ParameterSpec spec{"eps", {3}, {Initialization::Kind::kConstant, 0, -1e-6, -1e-6}};
  EXPECT_EQ(initial(spec, 7, 1, 2).sum().item<float>(), 2 * -1e-6F);
}

TEST(Initialize, NormsAreOnesAndBiasesZeros) {
  const ParameterSpec norm{"norm", {50}, {Initialization::Kind::kOnes, 0}};
  const ParameterSpec bias{"bias", {50}, {Initialization::Kind::kZeros, 0}};
  EXPECT_EQ(initial(norm, 7, 10, 20).sum().item<float>(), 20.0F);
  EXPECT_EQ(initial(bias, 7, 10, 20).abs().sum().item<float>(), 0.0F);
}

}  // namespace
}  // namespace packtrain
