// Labels that are the likeliest ones, against a plain search, per device and dtype.
#include "models/ops/linear_cross_entropy/greedy.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

#include <limits>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::greedy_test {
namespace {

class Greedy : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Greedy, testing::ValuesIn(operator_cases()), case_name);

std::vector<bool> found(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor greedy = at::empty({logits.size(0)}, labels.options().dtype(at::kBool));
  greedy_labels(logits, labels, greedy);
  const at::Tensor on_host = greedy.to(at::kCPU);
  const bool* values = on_host.const_data_ptr<bool>();
  return std::vector<bool>(values, values + on_host.numel());
}

// Few different logits, so that many are equal.
std::vector<bool> searched(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor rows = logits.to(at::kCPU, at::kFloat).contiguous();
  const at::Tensor wanted = labels.to(at::kCPU);
  const std::int64_t width = rows.size(1);
  std::vector<bool> greedy;
  for (std::int64_t n = 0; n < rows.size(0); ++n) {
    const float* row = rows.const_data_ptr<float>() + n * width;
    std::int64_t best = 0;
    for (std::int64_t v = 1; v < width; ++v) best = row[v] > row[best] ? v : best;
    greedy.push_back(best == wanted.const_data_ptr<std::int32_t>()[n]);
  }
  return greedy;
}

TEST_P(Greedy, IsTheLowestIdOfThoseWithTheLargestLogit) {
  const at::TensorOptions options = GetParam().options();
  for (const std::int64_t vocab_size : {3, 64, 1000, 9001, 40000}) {
    constexpr std::int64_t kRows = 200;
    const std::int64_t stride = (vocab_size + 15) / 8 * 8;  // columns after the vocabulary
    const at::Tensor all = at::randint(-2, 4, {kRows, stride}, options);
    all.narrow(1, vocab_size, stride - vocab_size).fill_(9);
    const at::Tensor logits = all.narrow(1, 0, vocab_size);
    const at::Tensor labels =
        at::randint(0, vocab_size < 1000 ? vocab_size : 12, {kRows}, options.dtype(at::kInt));
    EXPECT_EQ(found(logits, labels), searched(logits, labels)) << vocab_size;
  }
}

TEST_P(Greedy, ALabelInTheLastTileIsSeen) {
  const at::TensorOptions options = GetParam().options();
  const at::Tensor logits =
      at::arange(20000, options.dtype(at::kFloat)).div_(64).floor_().to(GetParam().dtype);
  const at::Tensor labels =
      at::tensor({19968}, options.dtype(at::kInt));  // the first of the last 32
  EXPECT_EQ(found(logits.unsqueeze(0), labels), searched(logits.unsqueeze(0), labels));
}

TEST_P(Greedy, ALogitThatIsNoNumberMakesNoLabelGreedy) {
  const at::TensorOptions options = GetParam().options();
  const at::Tensor logits = at::randint(-2, 2, {2, 64}, options);
  logits.select(0, 0).fill_(-1);
  logits.select(0, 0).select(0, 5).fill_(std::numeric_limits<float>::quiet_NaN());
  logits.select(0, 1).fill_(std::numeric_limits<float>::quiet_NaN());
  const at::Tensor labels = at::tensor({0, 0}, options.dtype(at::kInt));
  EXPECT_EQ(found(logits, labels), (std::vector<bool>{false, false}));
}

}  // namespace
}  // namespace packtrain::greedy_test
