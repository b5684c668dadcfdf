// Values with a norm, values that are the keys, and queries alone, against their formulas in
// float64.
#include "models/layers/shared_heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "framework/core/error.h"
#include "models/ops/qk_norm/qk_norm.h"
#include "models/ops/rotary/rotary_frequencies.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/models/cases.h"

namespace packtrain::shared_heads_test {
namespace {

class SharedHeads : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, SharedHeads, testing::ValuesIn(operator_cases()), case_name);

constexpr AttentionShape kShape{.num_heads = 6, .num_kv_heads = 2, .head_dim = 10};
constexpr std::int64_t kRows = 13;

at::Tensor random_heads(const OperatorCase& on, std::int64_t count, const char* name) {
  return random_tensor(on, {kRows, count, kShape.head_dim}, name);
}

TEST_P(SharedHeads, ANormOfValuesIsThatOfItsFormula) {
  const OperatorCase& on = GetParam();
  const at::Tensor heads = random_heads(on, 10, "heads");
  const at::Tensor grad = random_heads(on, 2, "grad");
  const at::Tensor values = heads.narrow(1, 8, 2).to(at::kDouble).requires_grad_();
  const at::Tensor want =
      values * at::rsqrt((values * values).mean(at::IntArrayRef{2}, true) + 0.01);
  const at::Tensor want_grad =
      torch::autograd::grad({want}, {values}, {grad.to(at::kDouble)}).front();
  const at::Tensor others = heads.narrow(1, 0, 8).clone();
  const at::Tensor inverse_rms = norm_values_(heads, kShape, 0.01);
  EXPECT_TRUE(at::equal(heads.narrow(1, 0, 8), others));
  expect_close(heads.narrow(1, 8, 2), want.detach(), on.tolerance, "values");
  expect_close(value_norm_backward(grad, heads, inverse_rms, kShape), want_grad, 2 * on.tolerance,
               "gradient");
}

TEST_P(SharedHeads, KeysThatAreValuesHaveBothGradients) {
  const OperatorCase& on = GetParam();
  const at::Tensor heads = random_heads(on, 8, "heads");
  const at::Tensor whole = with_keys_as_values(heads, kShape);
  EXPECT_TRUE(at::equal(whole.narrow(1, 0, 8), heads));
  EXPECT_TRUE(at::equal(whole.narrow(1, 8, 2), heads.narrow(1, 6, 2)));
  const at::Tensor grad = random_heads(on, 10, "grad");
  const at::Tensor got = with_values_in_keys(grad, kShape);
  EXPECT_TRUE(at::equal(got.narrow(1, 0, 6), grad.narrow(1, 0, 6)));
  expect_close(got.narrow(1, 6, 2),
               grad.narrow(1, 6, 2).to(at::kDouble) + grad.narrow(1, 8, 2).to(at::kDouble),
               on.tolerance, "keys");
}

// qk_norm.h norms queries and keys together. These are the queries of it.
TEST_P(SharedHeads, QueriesAloneAreThoseOfQueriesAndKeys) {
  const OperatorCase& on = GetParam();
  const at::Tensor heads = random_heads(on, 10, "heads");
  const Parameter query = random_parameter(on, {kShape.head_dim}, "query");
  const Parameter key = random_parameter(on, {kShape.head_dim}, "key");
  const Parameter alone{query.value, query.grad.clone()};
  const at::Tensor positions = int_tensor(on, some_ids(kRows, 300));
  const std::vector<float> values = rotary_frequencies({}, kShape.head_dim);
  const at::Tensor frequencies = at::tensor(values).to(on.device);
  const RotaryOptions rotary{.num_rotated_heads = 8, .scaling = 1.2};
  const QkNorm both{query, key, 6, {.epsilon = 0.01}};
  const QueryNorm norm{alone, {.epsilon = 0.01}, positions, frequencies, rotary};
  const at::Tensor queries = heads.narrow(1, 0, 6);
  const QkNormOutput want = qk_norm_forward(heads, both, positions, frequencies, rotary);
  const NormedQueries got = query_norm_forward(queries, norm);
  expect_close(got.heads, want.qkv.narrow(1, 0, 6), on.tolerance, "queries");
  const at::Tensor grad = random_heads(on, 10, "grad");
  const at::Tensor want_grad =
      qk_norm_backward(grad.narrow(1, 0, 6), grad.narrow(1, 6, 2), grad.narrow(1, 8, 2), heads,
                       want.inverse_rms, both, positions, frequencies, rotary);
  const at::Tensor got_grad =
      query_norm_backward(grad.narrow(1, 0, 6), queries, got.inverse_rms, norm);
  expect_close(got_grad, want_grad.narrow(1, 0, 6), 2 * on.tolerance, "gradient of queries");
  expect_close(alone.grad, query.grad, 2 * on.tolerance, "gradient of the weight");
}

TEST_P(SharedHeads, GradientsOfAllReadersAreAddedToTheOwn) {
  const OperatorCase& on = GetParam();
  const at::Tensor heads = random_heads(on, 10, "heads");
  SharedRows shared;
  keep_keys(heads, kShape, shared);
  const at::Tensor queries = random_heads(on, 6, "queries");
  const at::Tensor read = with_shared_keys(queries, shared);
  EXPECT_TRUE(at::equal(read.narrow(1, 0, 6), queries));
  EXPECT_TRUE(at::equal(read.narrow(1, 6, 4), heads.narrow(1, 6, 4)));
  const at::Tensor first = random_heads(on, 4, "first");
  const at::Tensor second = random_heads(on, 4, "second");
  const at::Tensor own = random_heads(on, 4, "own");
  for (const at::Tensor& part : {first, second}) {
    add_reader({queries, part.narrow(1, 0, 2), part.narrow(1, 2, 2)}, shared);
    keep_keys(heads, kShape, shared);  // as a recomputation does
  }
  HeadGradients grads{queries, own.narrow(1, 0, 2), own.narrow(1, 2, 2)};
  add_readers(shared, grads);
  const at::Tensor want = first.to(at::kDouble) + second.to(at::kDouble) + own.to(at::kDouble);
  expect_close(at::cat({grads.key, grads.value}, 1), want, 2 * on.tolerance, "sum");
  EXPECT_FALSE(shared.rows.defined());
  EXPECT_FALSE(shared.gradient.defined());
}

TEST(SharedHeadsOfNoLayer, AreAnInternalError) {
  const Error error = test::error_of([] { with_shared_keys({}, {}); });
  EXPECT_EQ(error.category(), ErrorCategory::kInternal);
}

}  // namespace
}  // namespace packtrain::shared_heads_test
