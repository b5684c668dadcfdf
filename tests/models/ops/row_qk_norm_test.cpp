// Norms over all heads, and layer norms of each, against their formulas in float64.
#include "models/ops/qk_norm/row_qk_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rsqrt.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::row_qk_norm_test {
namespace {

class RowQkNorm : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, RowQkNorm, testing::ValuesIn(operator_cases()), case_name);

struct Shape {
  std::int64_t rows, num_heads, num_kv_heads, head_dim;
};
constexpr Shape kShapes[] = {{0, 4, 2, 64}, {1, 3, 1, 16},   {7, 3, 1, 6},
                             {9, 6, 2, 80}, {130, 3, 3, 96}, {33, 4, 1, 256}};

at::Tensor mean_of(const at::Tensor& x, at::IntArrayRef dims) {
  return x.mean(dims, /*keepdim=*/true);
}

at::Tensor full_norm(const at::Tensor& heads, const at::Tensor& weight,
                     const RmsNormOptions& options) {
  const at::Tensor inverse = at::rsqrt(mean_of(heads * heads, {1, 2}) + options.epsilon);
  return heads * inverse * (weight.view({heads.size(1), heads.size(2)}) + options.weight_offset);
}

at::Tensor head_layer_norm(const at::Tensor& heads, const at::Tensor& weight,
                           const RmsNormOptions& options) {
  const at::Tensor centered = heads - mean_of(heads, {2});
  return centered * at::rsqrt(mean_of(centered * centered, {2}) + options.epsilon) * weight;
}

struct Kind {
  decltype(&full_qk_norm_forward) forward;
  decltype(&full_qk_norm_backward_) backward;
  decltype(&full_norm) formula;
  bool by_head;  // weights [heads, D] instead of [heads D]
};
constexpr Kind kFull = {full_qk_norm_forward, full_qk_norm_backward_, full_norm, false};
constexpr Kind kHeadLayer = {head_layer_norm_forward, head_layer_norm_backward_, head_layer_norm,
                             true};

std::vector<std::int64_t> weight_shape(const Kind& kind, std::int64_t num_heads,
                                       std::int64_t head_dim) {
  if (kind.by_head) return {num_heads, head_dim};
  return {num_heads * head_dim};
}

void expect_matches_formula(const OperatorCase& on, const Kind& kind, const Shape& shape) {
  const std::int64_t num_normed = shape.num_heads + shape.num_kv_heads;
  const std::vector<std::int64_t> dims = {shape.rows, num_normed + shape.num_kv_heads,
                                          shape.head_dim};
  const at::Tensor qkv = random_tensor(on, dims, "qkv");
  const at::Tensor grad = random_tensor(on, dims, "grad");
  const Parameter query =
      random_parameter(on, weight_shape(kind, shape.num_heads, shape.head_dim), "query");
  const Parameter key = random_parameter(on, weight_shape(kind, shape.num_kv_heads, shape.head_dim),
                                         "key", at::kFloat);
  const QkNorm norm{query, key, shape.num_heads, {.epsilon = 1e-3}};
  const at::Tensor leaf = reference_leaf(qkv);
  const at::Tensor query_leaf = reference_leaf(query.value);
  const at::Tensor key_leaf = reference_leaf(key.value);
  const at::Tensor want = at::cat(
      {kind.formula(leaf.narrow(1, 0, shape.num_heads), query_leaf, norm.options),
       kind.formula(leaf.narrow(1, shape.num_heads, shape.num_kv_heads), key_leaf, norm.options),
       leaf.narrow(1, num_normed, shape.num_kv_heads)},
      1);
  const auto wanted =
      torch::autograd::grad({want}, {leaf, query_leaf, key_leaf}, {wide_copy(grad)});

  poison_free_memory(on);
  const RowQkNormOutput got = kind.forward(qkv, norm);
  expect_close(got.qkv, want, on.tolerance, "queries, keys and values");
  const at::Tensor dx = grad.clone();
  kind.backward(dx, qkv, got.statistics, norm);
  expect_close(dx, wanted[0], on.tolerance, "d qkv");
  expect_close(query.grad, wanted[1], on.tolerance, "d query weight");
  expect_close(key.grad, wanted[2], on.tolerance, "d key weight");
}

void expect_matches_formula(const OperatorCase& on, const Kind& kind) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(std::to_string(shape.rows) + " rows, " + std::to_string(shape.num_heads) +
                 " heads of " + std::to_string(shape.head_dim));
    expect_matches_formula(on, kind, shape);
  }
}

TEST_P(RowQkNorm, OverAllHeadsMatchesItsFormula) {
  expect_matches_formula(GetParam(), kFull);
}

TEST_P(RowQkNorm, OfEachHeadMatchesTheFormulaOfLayerNorm) {
  expect_matches_formula(GetParam(), kHeadLayer);
}

TEST_P(RowQkNorm, SkipsTheGradientsOfFrozenWeights) {
  const OperatorCase& on = GetParam();
  for (const Kind& kind : {kFull, kHeadLayer}) {
    const at::Tensor qkv = random_tensor(on, {5, 8, 16}, "qkv");
    const Parameter query{random_tensor(on, weight_shape(kind, 4, 16), "query"), {}, false};
    const Parameter key = random_parameter(on, weight_shape(kind, 2, 16), "key");
    const QkNorm norm{query, key, 4, {}};
    const RowQkNormOutput got = kind.forward(qkv, norm);
    const at::Tensor dx = random_tensor(on, {5, 8, 16}, "grad");
    kind.backward(dx, qkv, got.statistics, norm);
    EXPECT_FALSE(query.grad.defined());
    EXPECT_FALSE(key.grad.isnan().any().item<bool>());
  }
}

}  // namespace
}  // namespace packtrain::row_qk_norm_test
