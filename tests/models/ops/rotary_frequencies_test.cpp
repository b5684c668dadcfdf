// Rotary frequencies against those of transformers 5.17 (modeling_rope_utils.py), and by token.
#include "models/ops/rotary/rotary_frequencies.h"

#include <ATen/ops/tensor.h>

#include <string>
#include <vector>

#include "tests/models/batches.h"
#include "tests/models/cases.h"

namespace packtrain::rotary_frequencies_test {
namespace {

using Kind = RotaryScaling::Kind;

RotaryConfig scaled(Kind kind, double factor, std::int64_t original, double base = 10000.0) {
  RotaryConfig config;
  config.base = base;
  config.scaling.kind = kind;
  config.scaling.factor = factor;
  config.scaling.original_max_positions = original;
  return config;
}

RotaryConfig longrope(std::int64_t num_pairs, std::int64_t original) {
  RotaryConfig config = scaled(Kind::kLongRope, 8.0, original);
  for (std::int64_t i = 0; i < num_pairs; ++i) {
    config.scaling.short_factors.push_back(1.0 + 0.1 * static_cast<double>(i));
    config.scaling.long_factors.push_back(2.0 + 1.5 * static_cast<double>(i));
  }
  return config;
}

// `wanted` is every fifth frequency, from the first: what transformers computes in float32.
void expect_frequencies(const RotaryConfig& config, std::int64_t dim, std::int64_t length,
                        const std::vector<double>& wanted) {
  const std::vector<float> got = rotary_frequencies(config, dim, length);
  ASSERT_EQ(got.size(), static_cast<std::size_t>(dim) / 2);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(got.at(5 * i), wanted[i], 2e-6 * wanted[i]) << "frequency " << 5 * i;
  }
}

TEST(RotaryFrequencies, AreThoseOfTransformers) {
  expect_frequencies({}, 32, 0, {1.0, 0.056234129, 0.0031622779, 0.00017782794});
  expect_frequencies(scaled(Kind::kLinear, 4.0, 0), 32, 0,
                     {0.25, 0.014058532, 0.00079056947, 4.4456985e-05});
  expect_frequencies(scaled(Kind::kLlama3, 8.0, 512, 500000.0), 32, 0,
                     {1.0, 0.0037580212, 3.4281024e-05, 5.6770881e-07});
}

TEST(RotaryFrequencies, OfDynamicScalingFollowTheLength) {
  const RotaryConfig config = scaled(Kind::kDynamic, 2.5, 4096);
  expect_frequencies(config, 32, 100, {1.0, 0.056234129, 0.0031622779, 0.00017782794});
  expect_frequencies(config, 32, 4096, {1.0, 0.056234129, 0.0031622779, 0.00017782794});
  expect_frequencies(config, 32, 5000, {1.0, 0.048572674, 0.0023593048, 0.00011459774});
  expect_frequencies(config, 32, 20000, {1.0, 0.025513908, 0.00065095944, 1.6608519e-05});
}

TEST(RotaryFrequencies, OfYarnAreThoseOfTransformers) {
  RotaryConfig config = scaled(Kind::kYarn, 8.0, 512, 150000.0);
  expect_frequencies(config, 32, 0, {1.0, 0.007237569, 7.2753348e-05, 1.7551914e-06});
  config = scaled(Kind::kYarn, 4.0, 64);
  expect_frequencies(config, 16, 0, {1.0, 0.00079056947});
  config = scaled(Kind::kYarn, 32.0, 4096, 150000.0);
  config.scaling.truncate = false;
  config.scaling.beta_fast = 16.0;
  config.scaling.beta_slow = 2.0;
  expect_frequencies(config, 32, 0, {1.0, 0.023931952, 1.8188337e-05, 4.3879785e-07});
}

TEST(RotaryFrequencies, OfLongropeHaveTheirFactorsByLength) {
  const RotaryConfig config = longrope(16, 512);
  expect_frequencies(config, 32, 512, {1.0, 0.037489422, 0.0015811389, 7.1131173e-05});
  expect_frequencies(config, 32, 513, {0.5, 0.005919382, 0.00018601635, 7.2582834e-06});
}

class FrequenciesByToken : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, FrequenciesByToken, testing::ValuesIn(operator_cases()),
                         case_name);

// Each token's frequencies follow from the length of its own sequence, not from the whole pack.
void expect_by_token(const OperatorCase& on, const RotaryConfig& config, std::int64_t dim,
                     const std::vector<std::int32_t>& lengths) {
  const RotaryFrequencies frequencies(config, dim);
  DeviceBatch batch = random_batch(lengths, 50, on.device);
  std::vector<float> wanted;
  for (const std::int32_t length : lengths) {
    const std::vector<float> row = rotary_frequencies(config, dim, length);
    for (std::int32_t i = 0; i < length; ++i) wanted.insert(wanted.end(), row.begin(), row.end());
  }
  const at::Tensor got = frequencies.of(batch);
  ASSERT_EQ(got.scalar_type(), at::kFloat);
  expect_close(got, at::tensor(wanted, at::TensorOptions(at::kFloat)).view({-1, dim / 2}), 1e-6,
               "frequencies");
  EXPECT_TRUE(frequencies.of(batch).is_same(got)) << "made once a batch";
}

TEST_P(FrequenciesByToken, AreThoseOfEachSequencesOwnLength) {
  const OperatorCase& on = GetParam();
  const std::vector<std::vector<std::int32_t>> packs = {
      {}, {1}, {7}, {0, 7, 0, 8, 3, 0}, {130, 2, 9, 1, 8, 400}};
  for (const auto& lengths : packs) {
    expect_by_token(on, longrope(5, 8), 10, lengths);
    expect_by_token(on, scaled(Kind::kDynamic, 3.0, 8), 12, lengths);
  }
}

TEST_P(FrequenciesByToken, AreOneZeroMadeOnceForTwoElementsThatDoNotRotate) {
  const RotaryFrequencies frequencies(RotaryConfig{.rotates = false}, 2);
  DeviceBatch first = random_batch({3, 4}, 50, GetParam().device);
  DeviceBatch second = random_batch({9}, 50, GetParam().device);
  const at::Tensor got = frequencies.of(first);
  EXPECT_EQ(got.scalar_type(), at::kFloat);
  EXPECT_EQ(got.sizes(), at::IntArrayRef({1}));
  EXPECT_EQ(got.item<float>(), 0);
  EXPECT_TRUE(frequencies.of(second).is_same(got));
}

TEST_P(FrequenciesByToken, AreOneRowWhereLengthsDoNotMatter) {
  const OperatorCase& on = GetParam();
  const RotaryFrequencies frequencies(scaled(Kind::kYarn, 4.0, 64), 16);
  DeviceBatch batch = random_batch({3, 100}, 50, on.device);
  EXPECT_EQ(frequencies.of(batch).sizes(), at::IntArrayRef({8}));
}

}  // namespace
}  // namespace packtrain::rotary_frequencies_test
