// Queries and keys normalised and turned, against the formula in float64, per device and dtype.
#include "models/ops/qk_norm/qk_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "models/ops/rotary/rotary_frequencies.h"
#include "tests/models/cases.h"

namespace packtrain::qk_norm_test {
namespace {

class QkNormOf : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, QkNormOf, testing::ValuesIn(operator_cases()), case_name);

struct Shape {
  std::int64_t rows, num_heads, num_kv_heads, head_dim, num_pairs;
};
constexpr Shape kShapes[] = {{0, 4, 2, 64, 32},   {1, 4, 2, 64, 32},     {7, 3, 1, 16, 8},
                             {21, 8, 8, 80, 16},  {33, 4, 1, 96, 12},    {9, 2, 1, 6, 2},
                             {5, 4, 2, 256, 128}, {400, 32, 8, 128, 64}, {3000, 4, 1, 128, 64},
                             {3, 4, 2, 32, 0}};

std::string text(const Shape& shape) {
  return std::to_string(shape.rows) + " rows, " + std::to_string(shape.num_heads) + " heads of " +
         std::to_string(shape.head_dim) + ", " + std::to_string(shape.num_pairs) + " pairs";
}

at::Tensor normalized(const at::Tensor& heads, const at::Tensor& weight,
                      const RmsNormOptions& options) {
  const at::Tensor square = (heads * heads).mean(at::IntArrayRef{2}, true);
  return heads * at::rsqrt(square + options.epsilon) * (weight + options.weight_offset);
}

struct Problem {
  at::Tensor qkv;
  at::Tensor grad;
  at::Tensor position_ids;
  at::Tensor frequencies;
  Parameter query;
  Parameter key;
  RotaryOptions rotary;
};

Problem problem_of(const OperatorCase& on, const Shape& shape) {
  Problem p;
  const std::int64_t num_rotated = shape.num_heads + shape.num_kv_heads;
  const std::vector<std::int64_t> dims = {shape.rows, num_rotated + shape.num_kv_heads,
                                          shape.head_dim};
  p.qkv = random_tensor(on, dims, "qkv");
  p.grad = random_tensor(on, dims, "grad");
  p.position_ids = int_tensor(on, some_ids(shape.rows, 5000));
  p.frequencies =
      at::tensor(rotary_frequencies({}, 2 * shape.num_pairs), at::TensorOptions(at::kFloat))
          .to(on.device);
  p.query = random_parameter(on, {shape.head_dim}, "query");
  p.key = random_parameter(on, {shape.head_dim}, "key", at::kFloat);
  p.rotary.num_rotated_heads = num_rotated;
  return p;
}

// The normalised and turned queries and keys, and the values: float64 [T, heads + 2 kv, D]. Turning
// itself has its own tests; here it is a map by the operator's own matrix.
at::Tensor formula(const Problem& p, const Shape& shape, const at::Tensor& qkv,
                   const at::Tensor& query, const at::Tensor& key, const RmsNormOptions& options) {
  const std::int64_t num_pairs = shape.num_pairs;
  const at::Tensor heads =
      at::cat({normalized(qkv.narrow(1, 0, shape.num_heads), query, options),
               normalized(qkv.narrow(1, shape.num_heads, shape.num_kv_heads), key, options)},
              1);
  const at::Tensor angles =
      wide_copy(at::mul(p.position_ids.to(at::kFloat).unsqueeze(1), p.frequencies).unsqueeze(1));
  const at::Tensor first = heads.narrow(2, 0, num_pairs);
  const at::Tensor second = heads.narrow(2, num_pairs, num_pairs);
  const at::Tensor turned = at::cat(
      {first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin(),
       heads.narrow(2, 2 * num_pairs, shape.head_dim - 2 * num_pairs)},
      2);
  return at::cat({turned, qkv.narrow(1, p.rotary.num_rotated_heads, shape.num_kv_heads)}, 1);
}

void expect_matches_formula(const OperatorCase& on, const Shape& shape) {
  const Problem p = problem_of(on, shape);
  const QkNorm norm{p.query, p.key, shape.num_heads, {.epsilon = 1e-3, .weight_offset = 1}};
  const at::Tensor qkv = reference_leaf(p.qkv);
  const at::Tensor query = reference_leaf(p.query.value);
  const at::Tensor key = reference_leaf(p.key.value);
  const at::Tensor want = formula(p, shape, qkv, query, key, norm.options);
  const auto wanted = torch::autograd::grad({want}, {qkv, query, key}, {wide_copy(p.grad)});

  poison_free_memory(on);
  const std::int64_t num_rotated = p.rotary.num_rotated_heads;
  const QkNormOutput got = qk_norm_forward(p.qkv, norm, p.position_ids, p.frequencies, p.rotary);
  EXPECT_EQ(got.qkv.scalar_type(), on.dtype);
  expect_close(got.qkv, want, on.tolerance, "queries, keys and values");
  const at::Tensor dx =
      qk_norm_backward(p.grad.narrow(1, 0, shape.num_heads),
                       p.grad.narrow(1, shape.num_heads, shape.num_kv_heads).contiguous(),
                       p.grad.narrow(1, num_rotated, shape.num_kv_heads).contiguous(), p.qkv,
                       got.inverse_rms, norm, p.position_ids, p.frequencies, p.rotary);
  expect_close(dx, wanted[0], on.tolerance, "d qkv");
  expect_close(p.query.grad, wanted[1], on.tolerance, "d query weight");
  expect_close(p.key.grad, wanted[2], on.tolerance, "d key weight");
}

TEST_P(QkNormOf, MatchesItsFormula) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(text(shape));
    expect_matches_formula(GetParam(), shape);
  }
}

TEST_P(QkNormOf, AddsToOrSkipsTheWeightsGradients) {
  const OperatorCase& on = GetParam();
  const Shape shape{33, 4, 2, 64, 32};
  Problem p = problem_of(on, shape);
  const Parameter frozen{p.key.value, {}, false};
  const auto backward = [&](const Parameter& query, const Parameter& key) {
    const QkNorm norm{query, key, shape.num_heads, {}};
    const QkNormOutput output =
        qk_norm_forward(p.qkv, norm, p.position_ids, p.frequencies, p.rotary);
    return qk_norm_backward(p.grad.narrow(1, 0, 4), p.grad.narrow(1, 4, 2), p.grad.narrow(1, 6, 2),
                            p.qkv, output.inverse_rms, norm, p.position_ids, p.frequencies,
                            p.rotary);
  };
  const at::Tensor dx = backward(p.query, p.key);
  const at::Tensor query_grad = p.query.grad.clone();
  p.query.accumulate = true;
  expect_close(backward(p.query, frozen), dx, 0, "d qkv");
  expect_close(p.query.grad, query_grad * 2, on.tolerance, "sum of two uses");
}

}  // namespace
}  // namespace packtrain::qk_norm_test
