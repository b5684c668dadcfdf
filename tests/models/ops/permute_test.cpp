// Rows and the slots of their copies, against the formulas in float64.
#include "models/ops/experts/permute.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <string>
#include <vector>

#include "models/ops/experts/token_permutation.h"
#include "tests/models/cases.h"

namespace packtrain::permute_test {
namespace {

class Slots : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Slots, testing::ValuesIn(operator_cases()), case_name);

struct Sizes {
  std::int64_t num_rows;
  std::int64_t num_slots;
  std::int64_t width;
};

constexpr Sizes kSizes[] = {{0, 2, 8}, {1, 1, 8}, {7, 3, 5}, {130, 2, 264}, {33, 8, 1408}};

// A place for each slot of each row; defined for Sizes of any number of slots.
at::Tensor some_places(const OperatorCase& on, const Sizes& s) {
  std::vector<std::int32_t> experts;
  for (std::int64_t t = 0; t < s.num_rows; ++t) {
    for (std::int64_t slot = 0; slot < s.num_slots; ++slot) {
      experts.push_back(static_cast<std::int32_t>((t * 5 + slot) % 11));
    }
  }
  return sort_tokens_by_expert(int_tensor(on, experts).view({s.num_rows, s.num_slots}), 11)
      .permuted_rows;
}

// Float32, one of them 0.
at::Tensor some_weights(const OperatorCase& on, const Sizes& s) {
  OperatorCase numbers = on;
  numbers.dtype = at::kFloat;
  at::Tensor weights = random_tensor(numbers, {s.num_rows, s.num_slots}, "weights");
  if (s.num_rows > 1) weights[0][0].zero_();
  return weights;
}

void expect_matches_formula(const OperatorCase& on, const Sizes& s, const at::Tensor& permuted_rows,
                            const at::Tensor& weights) {
  const std::int64_t num_values = s.num_rows * s.num_slots;
  const at::Tensor x = random_tensor(on, {s.num_rows, s.width}, "x");
  const at::Tensor a = random_tensor(on, {num_values, s.width}, "a");
  const at::Tensor b = random_tensor(on, {num_values, s.width}, "b");
  const at::Tensor w = weights.defined() ? wide_copy(weights)
                                         : at::zeros({s.num_rows, s.num_slots}, at::kDouble) + 1;
  at::Tensor sum = wide_copy(x);
  at::Tensor spread = at::zeros({num_values, s.width}, at::kDouble);
  at::Tensor dots = at::zeros({s.num_rows, s.num_slots}, at::kDouble);
  for (std::int64_t t = 0; t < s.num_rows; ++t) {
    for (std::int64_t slot = 0; slot < s.num_slots; ++slot) {
      const std::int64_t at =
          permuted_rows.defined() ? permuted_rows[t][slot].item<std::int32_t>() : t;
      const double weight = w[t][slot].item<double>();
      sum[t] += weight * wide_copy(a[at]);
      spread[at] = weight * wide_copy(x[t]);
      if (weight != 0) dots[t][slot] = (wide_copy(a[at]) * wide_copy(b[at])).sum() / weight;
    }
  }
  poison_free_memory(on);
  expect_close(unpermute_sum(a, permuted_rows, weights, x), sum, on.tolerance, "sum");
  expect_close(permute_rows(x, permuted_rows, weights), spread, on.tolerance, "spread");
  expect_close(grad_routing_weight(a, b, permuted_rows, weights), dots, on.tolerance, "dot");
}

TEST_P(Slots, MatchTheirFormulas) {
  const OperatorCase& on = GetParam();
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(std::to_string(sizes.num_rows) + " rows of " + std::to_string(sizes.width));
    const at::Tensor permuted_rows = some_places(on, sizes);
    expect_matches_formula(on, sizes, permuted_rows, some_weights(on, sizes));
    expect_matches_formula(on, sizes, permuted_rows, {});
    const Sizes own{sizes.num_rows, 1, sizes.width};
    expect_matches_formula(on, own, {}, some_weights(on, own));
    expect_matches_formula(on, own, {}, {});
  }
}

}  // namespace
}  // namespace packtrain::permute_test
