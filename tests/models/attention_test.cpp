// Packed attention against masked attention in float64, sequence by sequence.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "framework/support/error.h"
#include "models/ops/attention/attention.h"
#include "tests/models/batches.h"
#include "tests/models/cases.h"

namespace packtrain {
namespace {

class Attention : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Attention, testing::ValuesIn(operator_cases()), case_name);

// One sequence of one head, the whole score matrix in the open. q, k, v [L, D].
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionShape& shape) {
  const double scale =
      shape.scale != 0 ? shape.scale : 1.0 / std::sqrt(static_cast<double>(query.size(1)));
  const at::Tensor scores = at::matmul(query, key.t()) * scale;
  const at::Tensor never =
      at::full(scores.sizes(), -std::numeric_limits<double>::infinity(), scores.options());
  at::Tensor unseen = never.triu(1);
  if (shape.window > 0) {
    unseen = unseen + never.tril(-shape.window);
  }
  return at::matmul(at::softmax(scores + unseen, 1), value);
}

at::Tensor reference(const at::Tensor& qkv, const AttentionShape& shape,
                     const std::vector<std::int32_t>& lengths) {
  std::vector<at::Tensor> sequences;
  std::int64_t begin = 0;
  for (const std::int32_t length : lengths) {
    const at::Tensor rows = qkv.narrow(0, begin, length);
    std::vector<at::Tensor> heads;
    for (std::int64_t head = 0; head < shape.num_heads; ++head) {
      const std::int64_t kv = head / (shape.num_heads / shape.num_kv_heads);
      heads.push_back(attend(rows.select(1, head), rows.select(1, shape.num_heads + kv),
                             rows.select(1, shape.num_heads + shape.num_kv_heads + kv), shape));
    }
    sequences.push_back(at::cat(heads, 1));
    begin += length;
  }
  return at::cat(sequences, 0);
}

TEST_P(Attention, MatchesItsFormulaInEachSequence) {
  const OperatorCase& on = GetParam();
  const std::vector<std::vector<std::int32_t>> packs = {{1}, {5, 1, 17, 64, 3}, {130, 40}};
  for (const AttentionShape shape :
       {AttentionShape{4, 4, 16}, {4, 2, 32}, {6, 1, 8}, {4, 2, 16, 0.3}, {4, 2, 16, 0, 5}}) {
    for (const auto& lengths : packs) {
      const DeviceBatch batch = random_batch(lengths, 50, on.device);
      const at::Tensor qkv = random_tensor(
          on, {batch.input_ids.size(0), shape.num_heads + 2 * shape.num_kv_heads, shape.head_dim},
          "qkv");
      expect_matches_reference(
          on, qkv, {}, [&](const at::Tensor& x) { return attention(x, shape, batch); },
          [&](const at::Tensor& x, const auto&) { return reference(x, shape, lengths); });
    }
  }
}

TEST_P(Attention, NoSequenceSeesAnother) {
  const OperatorCase& on = GetParam();
  const AttentionShape shape{4, 2, 16};
  const DeviceBatch batch = random_batch({7, 12, 5}, 50, on.device);
  const at::Tensor qkv = random_tensor(on, {24, 8, 16}, "qkv");
  const at::Tensor other = qkv.clone();
  other.narrow(0, 7, 12).mul_(-3.0);
  const at::Tensor before = attention_forward(qkv, shape, batch).y;
  const at::Tensor after = attention_forward(other, shape, batch).y;
  expect_close(after.narrow(0, 0, 7), before.narrow(0, 0, 7), 0, "first sequence");
  expect_close(after.narrow(0, 19, 5), before.narrow(0, 19, 5), 0, "last sequence");
}

TEST_P(Attention, RefusesHeadsTheKernelDoesNotHave) {
  const OperatorCase& on = GetParam();
  if (!on.device.is_cuda() || on.dtype != at::kBFloat16) {
    return;  // every even head_dim works
  }
  const at::Tensor qkv = random_tensor(on, {4, 3, 12}, "qkv");
  EXPECT_THROW(attention_forward(qkv, {1, 1, 12}, random_batch({4}, 50, on.device)), Error);
}

}  // namespace
}  // namespace packtrain
