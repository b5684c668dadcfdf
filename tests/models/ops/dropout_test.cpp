// Masks of dropout: their rate, their scale, and what they depend on.
#include "models/ops/dropout/dropout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones.h>

#include "tests/models/cases.h"

namespace packtrain::dropout_test {
namespace {

class Dropout : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Dropout, testing::ValuesIn(operator_cases()), case_name);

at::Tensor seeds(const OperatorCase& on, std::int64_t begin, std::int64_t end) {
  return at::arange(begin, end, at::TensorOptions(at::kInt)).to(on.device);
}

at::Tensor ones(const OperatorCase& on, std::int64_t rows, std::int64_t width) {
  return at::ones({rows, width}, at::TensorOptions(on.dtype).device(on.device));
}

TEST_P(Dropout, DropsTheShareAndScalesTheRest) {
  const OperatorCase& on = GetParam();
  const at::Tensor y = dropout(ones(on, 512, 130), {seeds(on, 0, 512), 7, 0.25}).to(at::kFloat);
  const at::Tensor kept = at::ne(y, 0);
  EXPECT_NEAR(kept.to(at::kFloat).mean().item<double>(), 0.75, 0.01);
  EXPECT_NEAR(y.max().item<double>(), 1 / 0.75, 0.01);
}

TEST_P(Dropout, ARowDependsOnItsSeedAlone) {
  const OperatorCase& on = GetParam();
  const at::Tensor whole = dropout(ones(on, 64, 37), {seeds(on, 0, 64), 7, 0.5});
  const at::Tensor part = dropout(ones(on, 10, 37), {seeds(on, 20, 30), 7, 0.5});
  EXPECT_TRUE(part.equal(whole.narrow(0, 20, 10)));
}

TEST_P(Dropout, PlacesOfAModelHaveOtherMasks) {
  const OperatorCase& on = GetParam();
  const at::Tensor first = dropout(ones(on, 64, 64), {seeds(on, 0, 64), 7, 0.5});
  const at::Tensor second = dropout(ones(on, 64, 64), {seeds(on, 0, 64), 8, 0.5});
  const double differ = at::ne(first, second).to(at::kFloat).mean().item<double>();
  EXPECT_NEAR(differ, 0.5, 0.03);
}

TEST_P(Dropout, MasksAreEqualOnAllDevicesAndForAllTypes) {
  const OperatorCase& on = GetParam();
  const at::Tensor here = dropout(ones(on, 33, 41), {seeds(on, 0, 33), 9, 0.3});
  const at::Tensor on_cpu =
      dropout(at::ones({33, 41}), {at::arange(0, 33, at::TensorOptions(at::kInt)), 9, 0.3});
  EXPECT_TRUE(at::ne(here, 0).to(at::kCPU).equal(at::ne(on_cpu, 0)));
}

}  // namespace
}  // namespace packtrain::dropout_test
