// Merged heads of latent attention against their formula in float64.
#include "models/ops/latent_heads/latent_heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::latent_heads_test {
namespace {

class LatentHeadsOp : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, LatentHeadsOp, testing::ValuesIn(operator_cases()), case_name);

// Odd sizes, whole vectors, values as wide as keys, heads of DeepSeek-V2.
const std::vector<LatentHeadShape> kShapes = {
    {.num_heads = 3, .rotary_dim = 2, .unturned_dim = 5, .value_dim = 4},
    {1, 6, 1, 7},
    {5, 16, 32, 24},
    {16, 64, 128, 128},
    {4, 8, 8, 16}};
constexpr std::int64_t kRows[] = {0, 1, 33};

LatentHeads random_parts(const OperatorCase& on, std::int64_t rows, const LatentHeadShape& shape) {
  const std::int64_t heads = shape.num_heads;
  return {random_tensor(on, {rows, heads * shape.head_dim()}, "query"),
          random_tensor(on, {rows, heads * (shape.unturned_dim + shape.value_dim)}, "key_value"),
          random_tensor(on, {rows, shape.rotary_dim}, "key_rope")};
}

// By the formula of the header, on float64.
at::Tensor formula(const LatentHeads& parts, const LatentHeadShape& shape) {
  const std::int64_t rows = parts.query.size(0);
  const std::int64_t heads = shape.num_heads;
  const std::int64_t turned = shape.rotary_dim;
  const std::int64_t unturned = shape.unturned_dim;
  const at::Tensor query = parts.query.view({rows, heads, turned + unturned});
  const at::Tensor key_value = parts.key_value.view({rows, heads, unturned + shape.value_dim});
  const at::Tensor shared = parts.key_rope.view({rows, 1, turned}).expand({rows, heads, turned});
  const at::Tensor zeros =
      at::zeros({rows, heads, turned + unturned - shape.value_dim}, parts.query.options());
  const at::Tensor merged_query =
      at::cat({query.narrow(2, unturned, turned), query.narrow(2, 0, unturned)}, 2);
  const at::Tensor merged_key = at::cat({shared, key_value.narrow(2, 0, unturned)}, 2);
  const at::Tensor merged_value =
      at::cat({key_value.narrow(2, unturned, shape.value_dim), zeros}, 2);
  return at::cat({merged_query, merged_key, merged_value}, 1);
}

void expect_formula(const OperatorCase& on, std::int64_t rows, const LatentHeadShape& shape) {
  const LatentHeads parts = random_parts(on, rows, shape);
  const LatentHeads leaves = {reference_leaf(parts.query), reference_leaf(parts.key_value),
                              reference_leaf(parts.key_rope)};
  const at::Tensor want = formula(leaves, shape);
  const at::Tensor grad = random_tensor(on, want.sizes(), "grad");
  const auto grads = torch::autograd::grad(
      {want}, {leaves.query, leaves.key_value, leaves.key_rope}, {wide_copy(grad)});
  poison_free_memory(on);
  const at::Tensor merged = merge_latent_heads(parts, shape);
  EXPECT_EQ(merged.scalar_type(), on.dtype);
  expect_close(merged, want, 0, "merged heads");
  const LatentHeads got = merge_latent_heads_backward(grad, shape);
  expect_close(got.query, grads[0], 0, "d query");
  expect_close(got.key_value, grads[1], 0, "d key and value");
  expect_close(got.key_rope, grads[2], on.tolerance, "d shared elements");
}

TEST_P(LatentHeadsOp, MergedHeadsAreTheirFormula) {
  for (const LatentHeadShape& shape : kShapes) {
    for (const std::int64_t rows : kRows) {
      SCOPED_TRACE(std::to_string(shape.num_heads) + " heads, " + std::to_string(rows) + " rows");
      expect_formula(GetParam(), rows, shape);
    }
  }
}

TEST_P(LatentHeadsOp, ZerosAfterValuesAreLeftOutAndHaveNoGradient) {
  const OperatorCase& on = GetParam();
  for (const LatentHeadShape& shape : kShapes) {
    for (const std::int64_t rows : kRows) {
      const std::int64_t heads = shape.num_heads;
      const at::Tensor y = random_tensor(on, {rows, heads * shape.head_dim()}, "y");
      const at::Tensor leaf = reference_leaf(y);
      const at::Tensor want = leaf.view({rows, heads, shape.head_dim()})
                                  .narrow(2, 0, shape.value_dim)
                                  .reshape({rows, heads * shape.value_dim});
      const at::Tensor grad = random_tensor(on, want.sizes(), "grad");
      const auto grads = torch::autograd::grad({want}, {leaf}, {wide_copy(grad)});
      poison_free_memory(on);
      expect_close(leave_out_zeros(y, shape), want, 0, "values");
      expect_close(leave_out_zeros_backward(grad, shape), grads[0], 0, "d y");
    }
  }
}

}  // namespace
}  // namespace packtrain::latent_heads_test
