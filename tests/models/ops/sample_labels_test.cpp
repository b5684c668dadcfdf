// Labels that are sampled from logits: their distribution, and what they depend on.
#include "models/ops/linear_cross_entropy/sample_labels.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <limits>

#include "tests/models/cases.h"

namespace packtrain::sample_labels_test {
namespace {

class SampleLabels : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, SampleLabels, testing::ValuesIn(operator_cases()), case_name);

at::Tensor seeds_of(const OperatorCase& on, std::int64_t begin, std::int64_t count) {
  return at::arange(begin, begin + count, at::TensorOptions(at::kLong)).to(on.device);
}

// Many rows of the same logits.
at::Tensor counts_of(const OperatorCase& on, const at::Tensor& logits, std::int64_t num_rows,
                     const CrossEntropyOptions& options = {}) {
  // Rows start at multiples of 16 bytes; what follows the vocabulary would win if it were read.
  const std::int64_t vocab_size = logits.size(0);
  const at::Tensor wide = at::full({num_rows, (vocab_size + 15) / 8 * 8}, 100.0, logits.options());
  const at::Tensor rows = wide.narrow(1, 0, vocab_size);
  rows.copy_(logits.unsqueeze(0).expand_as(rows));
  const at::Tensor labels = sample_labels(rows, seeds_of(on, 0, num_rows), options);
  EXPECT_EQ(labels.scalar_type(), at::kInt);
  return at::bincount(labels.cpu().to(at::kLong), {}, vocab_size).to(at::kDouble);
}

// Pearson's statistic divided by its standard deviation, after its mean is subtracted.
double excess_chi_square(const at::Tensor& counts, const at::Tensor& probabilities) {
  const at::Tensor wanted = probabilities * counts.sum();
  const double chi_square = ((counts - wanted).square() / wanted).sum().item<double>();
  const auto degrees = static_cast<double>(counts.numel() - 1);
  return (chi_square - degrees) / std::sqrt(2 * degrees);
}

TEST_P(SampleLabels, HaveTheProbabilitiesOfTheSoftmax) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t vocab_size : {2, 7, 33, 130}) {
    const at::Tensor logits = random_tensor(on, {vocab_size}, "logits");
    const at::Tensor probabilities = at::softmax(wide_copy(logits), 0);
    EXPECT_LT(excess_chi_square(counts_of(on, logits, 40000), probabilities), 4) << vocab_size;
    // The test sees other probabilities.
    const at::Tensor others = at::softmax(wide_copy(logits) * 0.9, 0);
    EXPECT_GT(excess_chi_square(counts_of(on, logits, 40000), others), 4) << vocab_size;
  }
}

TEST_P(SampleLabels, HaveTheProbabilitiesOfCappedLogits) {
  const OperatorCase& on = GetParam();
  const at::Tensor logits = random_tensor(on, {20}, "logits") * 3;
  const at::Tensor capped = at::tanh(wide_copy(logits) / 2.0) * 2.0;
  const at::Tensor counts = counts_of(on, logits, 40000, {.soft_cap = 2.0});
  EXPECT_LT(excess_chi_square(counts, at::softmax(capped, 0)), 4);
  EXPECT_GT(excess_chi_square(counts, at::softmax(wide_copy(logits), 0)), 4);
}

// A rare label wins by noise that few random words give.
TEST_P(SampleLabels, RareLabelsHaveTheirProbability) {
  const OperatorCase& on = GetParam();
  const double rare = std::log(1e-4);
  const at::Tensor logits =
      at::tensor({0.0, rare}, at::TensorOptions(at::kDouble)).to(on.device, on.dtype);
  constexpr std::int64_t kRows = 1000000;
  const at::Tensor probabilities = at::softmax(wide_copy(logits), 0);
  const double wanted = probabilities[1].item<double>() * kRows;
  const double got = counts_of(on, logits, kRows)[1].item<double>();
  EXPECT_NEAR(got, wanted, 4 * std::sqrt(wanted));
}

TEST_P(SampleLabels, DependOnTheSeedAndLogitsOfTheirRowAlone) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t vocab_size : {8, 1000, 40000}) {
    const at::Tensor logits = random_tensor(on, {64, vocab_size}, "logits");
    const at::Tensor seeds = seeds_of(on, 1000, 64);
    const at::Tensor labels = sample_labels(logits, seeds, {});
    const at::Tensor order = at::randperm(64, at::TensorOptions(at::kLong)).to(on.device);
    const at::Tensor moved =
        sample_labels(logits.index_select(0, order), seeds.index_select(0, order), {});
    EXPECT_TRUE(moved.equal(labels.index_select(0, order))) << vocab_size;
    const at::Tensor chunk = sample_labels(logits.narrow(0, 7, 9), seeds.narrow(0, 7, 9), {});
    EXPECT_TRUE(chunk.equal(labels.narrow(0, 7, 9))) << vocab_size;
    EXPECT_FALSE(sample_labels(logits, seeds_of(on, 0, 64), {}).equal(labels)) << vocab_size;
  }
}

TEST_P(SampleLabels, AreEqualOnAllDevices) {
  const OperatorCase& on = GetParam();
  const at::Tensor logits = random_tensor(on, {256, 5000}, "logits");
  const at::Tensor here = sample_labels(logits, seeds_of(on, 0, 256), {}).cpu();
  const at::Tensor on_cpu =
      sample_labels(logits.cpu(), at::arange(0, 256, at::TensorOptions(at::kLong)), {});
  // Logarithms of other libraries change the order of nearly equal values.
  EXPECT_LE(here.ne(on_cpu).sum().item<std::int64_t>(), 1);
}

TEST_P(SampleLabels, StayInTheVocabularyWhereLogitsAreNotFinite) {
  const OperatorCase& on = GetParam();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {-kInfinity, kInfinity, std::nan("")}) {
    const at::Tensor logits = at::full({3, 16}, value, on.options());
    const at::Tensor labels = sample_labels(logits, seeds_of(on, 0, 3), {});
    EXPECT_GE(labels.min().item<std::int32_t>(), 0) << value;
    EXPECT_LT(labels.max().item<std::int32_t>(), 16) << value;
  }
  EXPECT_EQ(sample_labels(at::full({0, 16}, 0.0, on.options()), seeds_of(on, 0, 0), {}).size(0), 0);
}

}  // namespace
}  // namespace packtrain::sample_labels_test
