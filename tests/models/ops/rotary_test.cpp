// Rotary positions against their formula in float64, per device and dtype.
#include "models/ops/rotary/rotary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/ops/rotary/rotary_frequencies.h"
#include "tests/models/cases.h"

namespace packtrain::rotary_test {
namespace {

class Rotary : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Rotary, testing::ValuesIn(operator_cases()), case_name);

struct Shape {
  std::int64_t rows, num_heads, num_kv_heads, head_dim, num_pairs;
};
// Rotated wholly and in part; widths that are and are not 16-byte runs; none rotated.
constexpr Shape kShapes[] = {{0, 4, 2, 64, 32},    {1, 4, 2, 64, 32},   {7, 3, 1, 16, 8},
                             {130, 14, 2, 64, 32}, {21, 8, 8, 80, 16},  {33, 4, 1, 96, 12},
                             {9, 2, 1, 6, 2},      {5, 4, 2, 256, 128}, {300, 32, 8, 128, 64},
                             {3, 4, 2, 32, 0}};

std::string text(const Shape& shape) {
  return std::to_string(shape.rows) + " rows, " + std::to_string(shape.num_heads) + " heads of " +
         std::to_string(shape.head_dim) + ", " + std::to_string(shape.num_pairs) + " pairs";
}

at::Tensor frequencies_of(const OperatorCase& on, std::int64_t num_pairs) {
  const auto values = rotary_frequencies({}, 2 * num_pairs);
  return at::tensor(values, at::TensorOptions(at::kFloat)).to(on.device);
}

// The first `num_rotated_heads` of x [T, heads, D] float64, turned.
at::Tensor formula(const at::Tensor& x, const at::Tensor& position_ids,
                   const at::Tensor& frequencies, const RotaryOptions& options) {
  const std::int64_t num_pairs = frequencies.size(0);
  // The product is float32 in the operator's contract.
  const at::Tensor angles =
      wide_copy(at::mul(position_ids.to(at::kFloat).unsqueeze(1), frequencies).unsqueeze(1));
  const at::Tensor cos = angles.cos() * options.scaling;
  const at::Tensor sin = angles.sin() * options.scaling;
  const at::Tensor heads = x.narrow(1, 0, options.num_rotated_heads);
  const at::Tensor turning = heads.narrow(2, 0, 2 * num_pairs);
  const auto dims = turning.sizes().slice(0, 2).vec();
  const auto split = options.interleaved
                         ? turning.reshape({dims[0], dims[1], num_pairs, 2})
                         : turning.reshape({dims[0], dims[1], 2, num_pairs}).transpose(2, 3);
  const at::Tensor first = split.select(3, 0);
  const at::Tensor second = split.select(3, 1);
  const at::Tensor turned_first = first * cos - second * sin;
  const at::Tensor turned_second = second * cos + first * sin;
  at::Tensor turned = at::cat({turned_first.unsqueeze(3), turned_second.unsqueeze(3)}, 3);
  if (!options.interleaved) turned = turned.transpose(2, 3);
  const at::Tensor kept = heads.narrow(2, 2 * num_pairs, x.size(2) - 2 * num_pairs);
  const std::int64_t rotated = options.num_rotated_heads;
  return at::cat({at::cat({turned.reshape({dims[0], dims[1], 2 * num_pairs}), kept}, 2),
                  x.narrow(1, rotated, x.size(1) - rotated)},
                 1);
}

void expect_matches_formula(const OperatorCase& on, const Shape& shape, RotaryOptions options) {
  const std::int64_t num_kv = shape.num_kv_heads;
  options.num_rotated_heads = shape.num_heads + num_kv;
  const std::vector<std::int64_t> dims = {shape.rows, options.num_rotated_heads + num_kv,
                                          shape.head_dim};
  const at::Tensor qkv = random_tensor(on, dims, "qkv");
  const at::Tensor grad = random_tensor(on, dims, "grad");
  const at::Tensor position_ids = int_tensor(on, some_ids(shape.rows, 5000));
  const at::Tensor frequencies = frequencies_of(on, shape.num_pairs);
  const at::Tensor leaf = reference_leaf(qkv);
  const at::Tensor want = formula(leaf, position_ids, frequencies, options);
  const auto wanted = torch::autograd::grad({want}, {leaf}, {wide_copy(grad)});

  at::Tensor got = qkv.clone();
  rotary_forward_(got, position_ids, frequencies, options);
  expect_close(got, want, on.tolerance, "y");
  poison_free_memory(on);
  // Queries as a view of the merged gradient, keys and values by themselves.
  const at::Tensor dx = rotary_backward(
      grad.narrow(1, 0, shape.num_heads), grad.narrow(1, shape.num_heads, num_kv).contiguous(),
      grad.narrow(1, options.num_rotated_heads, num_kv).contiguous(), position_ids, frequencies,
      options);
  expect_close(dx, wanted[0], on.tolerance, "d x");
}

TEST_P(Rotary, TurnsQueriesAndKeysAndKeepsValues) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(text(shape));
    expect_matches_formula(GetParam(), shape, {});
  }
}

TEST_P(Rotary, TurnsInterleavedPairs) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(text(shape));
    expect_matches_formula(GetParam(), shape, {.interleaved = true, .scaling = 1.25});
  }
}

TEST_P(Rotary, IsAccurateAtTheEndOfALongContext) {
  const OperatorCase& on = GetParam();
  const RotaryOptions options{.num_rotated_heads = 1};
  const at::Tensor position_ids = int_tensor(on, {131071, 1000003, 16777215});
  const at::Tensor frequencies = frequencies_of(on, 64);
  at::Tensor x = random_tensor(on, {3, 1, 128}, "x");
  const at::Tensor want = formula(wide_copy(x), position_ids, frequencies, options);
  rotary_forward_(x, position_ids, frequencies, options);
  expect_close(x, want, on.tolerance, "y");
}

// Every token with frequencies of its own is a call a token with those.
TEST_P(Rotary, TurnsEachTokenByItsOwnFrequencies) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t rows : {0, 1, 130}) {
    RotaryOptions options{.num_rotated_heads = 6, .scaling = 0.75};
    const at::Tensor qkv = random_tensor(on, {rows, 8, 80}, "qkv");
    const at::Tensor position_ids = int_tensor(on, some_ids(rows, 5000));
    const at::Tensor frequencies =
        random_tensor(on, {rows, 10}, "frequencies").to(at::kFloat).contiguous();
    at::Tensor got = qkv.clone();
    rotary_forward_(got, position_ids, frequencies, options);
    const at::Tensor back =
        rotary_backward(qkv.narrow(1, 0, 4), qkv.narrow(1, 4, 2), qkv.narrow(1, 6, 2), position_ids,
                        frequencies, options);
    for (std::int64_t row = 0; row < rows; ++row) {
      at::Tensor one = qkv.narrow(0, row, 1).clone();
      const at::Tensor place = position_ids.narrow(0, row, 1);
      const at::Tensor own = frequencies.select(0, row);
      rotary_forward_(one, place, own, options);
      expect_close(got.narrow(0, row, 1), one, 0, "y");
      const at::Tensor in = qkv.narrow(0, row, 1);
      expect_close(back.narrow(0, row, 1),
                   rotary_backward(in.narrow(1, 0, 4), in.narrow(1, 4, 2), in.narrow(1, 6, 2),
                                   place, own, options),
                   0, "d x");
    }
  }
}

}  // namespace
}  // namespace packtrain::rotary_test
