// NF4 against its definition, and on a GPU against the CPU's bytes.
#include "models/ops/nf4/nf4.h"
#include "models/ops/encoded_weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "models/ops/nf4/nf4_arithmetic.h"
#include "tests/models/cases.h"

namespace packtrain::nf4_test {
namespace {

class Nf4 : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Nf4, testing::ValuesIn(operator_cases()), case_name);

constexpr Nf4Tables kTables = make_nf4_tables();
// Two whole groups, and one of three blocks.
constexpr std::int64_t kNumel = 2 * kNf4GroupElements + 3 * kNf4BlockElements;

at::Tensor some_values(const OperatorCase& on, std::int64_t numel = kNumel) {
  const at::Tensor values = random_tensor(on, {numel}, "weight") * 0.02;
  values.narrow(0, kNf4BlockElements, kNf4BlockElements).zero_();
  return values;
}

ReadValues reader_of(const at::Tensor& values) {
  return
      [values](std::int64_t begin, std::int64_t numel) { return values.narrow(0, begin, numel); };
}

at::Tensor quantised(const at::Tensor& values) {
  const std::int64_t bytes = num_nf4_groups(values.numel()) * kNf4GroupBytes;
  const at::Tensor groups = at::zeros({bytes}, values.options().dtype(at::kByte));
  nf4_quantize_tensor(values.numel(), 0, groups, reader_of(values));
  return groups;
}

at::Tensor decoded(const at::Tensor& groups, std::int64_t numel, const at::TensorOptions& options) {
  const at::Tensor values = at::full({numel}, std::numeric_limits<double>::quiet_NaN(), options);
  nf4_decode({groups, {{0, numel}}}, values);
  return values;
}

TEST_P(Nf4, ValuesDecodeToTheNearestQuantileOfTheirBlock) {
  const OperatorCase& on = GetParam();
  const at::Tensor values = some_values(on);
  const at::Tensor back = decoded(quantised(values), kNumel, on.options()).cpu().to(at::kFloat);
  const at::Tensor want = values.cpu().to(at::kFloat);
  for (std::int64_t begin = 0; begin < kNumel; begin += kNf4BlockElements) {
    const at::Tensor block = want.narrow(0, begin, kNf4BlockElements);
    const auto absmax = block.abs().max().item<float>();
    for (std::int64_t i = 0; i < kNf4BlockElements; ++i) {
      const auto x = block[i].item<float>();
      const auto distance = [&](float q) { return std::abs(q * absmax - x); };
      const float nearest = *std::ranges::min_element(kTables.quantiles, {}, distance);
      // The absmax itself is rounded to 8 bits, at most 2 % of the largest deviation from the mean.
      ASSERT_NEAR(back[begin + i].item<float>(), nearest * absmax, 0.01 * absmax + 2e-4) << begin;
    }
  }
}

TEST_P(Nf4, ABlockOfZerosStaysZeros) {
  const OperatorCase& on = GetParam();
  const at::Tensor back = decoded(quantised(some_values(on)), kNumel, on.options());
  EXPECT_EQ(back.narrow(0, kNf4BlockElements, kNf4BlockElements).count_nonzero().item<int>(), 0);
}

TEST_P(Nf4, EveryDeviceWritesTheBytesOfTheCpu) {
  const OperatorCase& on = GetParam();
  const at::Tensor values = some_values(on);
  const at::Tensor groups = quantised(values);
  EXPECT_TRUE(groups.cpu().equal(quantised(values.cpu())));
  const at::Tensor back = decoded(groups, kNumel, on.options());
  EXPECT_TRUE(back.cpu().equal(decoded(groups.cpu(), kNumel, at::TensorOptions(on.dtype))));
}

TEST_P(Nf4, ARankQuantisesItsGroupsAsTheWholeTensorIs) {
  const OperatorCase& on = GetParam();
  const at::Tensor values = some_values(on);
  const at::Tensor whole = quantised(values);
  for (std::int64_t group = 0; group < 3; ++group) {
    const at::Tensor part = at::zeros({kNf4GroupBytes}, whole.options());
    nf4_quantize_tensor(kNumel, group, part, reader_of(values));
    EXPECT_TRUE(part.equal(whole.narrow(0, group * kNf4GroupBytes, kNf4GroupBytes))) << group;
  }
}

TEST_P(Nf4, EachRangeOfAParameterIsDecodedToItsElements) {
  const OperatorCase& on = GetParam();
  constexpr int kNumRanges = 11;  // more than a launch has
  const std::int64_t numel = kNf4GroupElements + 2 * kNf4BlockElements;
  std::vector<at::Tensor> groups;
  std::vector<at::Tensor> want;
  std::vector<ElementRange> ranges;
  for (int i = 0; i < kNumRanges; ++i) {
    const at::Tensor values = some_values(on, numel) * (i + 1);
    groups.push_back(quantised(values));
    want.push_back(decoded(groups.back(), numel, on.options()));
    ranges.push_back({i * numel, numel});
  }
  Parameter weight;
  weight.value = at::full({kNumRanges, numel}, std::nan(""), on.options());
  weight.encoded = std::make_shared<EncodedParameter>(EncodedParameter{at::cat(groups), ranges});
  decode_weight(weight);
  EXPECT_TRUE(weight.value.view({-1}).equal(at::cat(want)));
}

TEST_P(Nf4, GroupsFullOfNanDecodeToNan) {
  const OperatorCase& on = GetParam();
  const at::Tensor groups =
      at::full({kNf4GroupBytes}, 255, at::TensorOptions(at::kByte).device(on.device));
  const at::Tensor values = at::zeros({kNf4GroupElements}, on.options());
  nf4_decode({groups, {{0, kNf4GroupElements}}}, values);
  EXPECT_TRUE(values.isnan().all().item<bool>());
}

TEST(Nf4Tables, MapsAscend) {
  EXPECT_TRUE(std::ranges::is_sorted(kTables.quantiles));
  EXPECT_TRUE(std::ranges::is_sorted(kTables.absmax_map));
  EXPECT_EQ(kTables.absmax_map[127], 0.0F);
  EXPECT_EQ(kTables.absmax_map[255], 1.0F);
}

TEST(Nf4Tables, AnAbsmaxOfTheMapHasItsOwnCodeAboveTheGridOfBitsandbytes) {
  for (int code = 0; code < 256; ++code) {
    const float value = kTables.absmax_map[code];
    if (std::abs(value) < 1e-3F) continue;  // the grid is coarser than the map there
    EXPECT_EQ(absmax_code(kTables, value, 1.0F), code);
  }
}

}  // namespace
}  // namespace packtrain::nf4_test
