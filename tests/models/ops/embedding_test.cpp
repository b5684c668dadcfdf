// Embedding look-ups against their formula in float64, per device and dtype.
#include "models/ops/embedding/embedding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::embedding_test {
namespace {

class Embedding : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Embedding, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kVocabSize = 300;

at::Tensor reference_gradient(const at::Tensor& grad_output, const at::Tensor& ids) {
  return at::zeros({kVocabSize, grad_output.size(1)}, at::TensorOptions(at::kDouble))
      .index_add_(0, ids.to(at::kCPU, at::kLong), wide_copy(grad_output));
}

// Ids of which every second one is the same, as padding or a frequent word would be.
std::vector<std::int32_t> lopsided_ids(std::int64_t count) {
  std::vector<std::int32_t> ids = some_ids(count, kVocabSize - 3);
  for (std::size_t i = 0; i < ids.size(); i += 2) ids[i] = 17;
  return ids;
}

void expect_sums_rows(const OperatorCase& on, const at::Tensor& ids, std::int64_t width,
                      at::ScalarType grad_dtype) {
  Parameter weight = random_parameter(on, {kVocabSize, width}, "weight", grad_dtype);
  expect_close(embedding_forward(ids, weight), weight.value.index_select(0, ids), 0, "y");
  const at::Tensor grad_output = random_tensor(on, {ids.size(0), width}, "grad_output");
  const at::Tensor want = reference_gradient(grad_output, ids);
  poison_free_memory(on);
  embedding_backward(grad_output, ids, weight);
  expect_close(weight.grad, want, on.tolerance, "d weight");
  EXPECT_EQ(weight.grad.slice(0, kVocabSize - 3).abs().max().item<double>(), 0.0)
      << "poison left in rows never looked up";
  weight.accumulate = true;
  embedding_backward(grad_output, ids, weight);
  expect_close(weight.grad, want * 2, on.tolerance, "sum of two uses");
}

TEST_P(Embedding, SumsTheGradientsOfEqualIds) {
  const OperatorCase& on = GetParam();
  for (const at::ScalarType grad_dtype : {on.dtype, at::kFloat}) {
    for (const std::int64_t rows : {0, 1, 7, 31, 130, 3000}) {
      for (const std::int64_t width : {1, 7, 16, 2056}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(width));
        if (rows * width > 50000) continue;
        expect_sums_rows(on, int_tensor(on, some_ids(rows, kVocabSize - 3)), width, grad_dtype);
        expect_sums_rows(on, int_tensor(on, lopsided_ids(rows)), width, grad_dtype);
      }
    }
  }
}

TEST_P(Embedding, SumsOneIdAlone) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t rows : {64, 65, 5000}) {
    const std::vector<std::int32_t> ids(static_cast<std::size_t>(rows), 0);
    expect_sums_rows(on, int_tensor(on, ids), 24, on.dtype);
  }
}

TEST_P(Embedding, IsTheSameToTheBitEachTime) {
  const OperatorCase& on = GetParam();
  const at::Tensor ids = int_tensor(on, lopsided_ids(4000));
  const at::Tensor grad_output = random_tensor(on, {4000, 64}, "grad_output");
  const Parameter weight = random_parameter(on, {kVocabSize, 64}, "weight");
  embedding_backward(grad_output, ids, weight);
  const at::Tensor once = weight.grad.clone();
  embedding_backward(grad_output, ids, weight);
  expect_close(weight.grad, once, 0, "d weight");
}

TEST_P(Embedding, SkipsAFrozenWeight) {
  const OperatorCase& on = GetParam();
  const Parameter frozen{random_tensor(on, {kVocabSize, 8}, "weight"), {}, false};
  embedding_backward(random_tensor(on, {5, 8}, "grad_output"), int_tensor(on, some_ids(5, 9)),
                     frozen);
  EXPECT_FALSE(frozen.grad.defined());
}

}  // namespace
}  // namespace packtrain::embedding_test
