// The gated delta rule against its recurrence in float64, token by token.
#include "models/ops/delta_rule/delta_rule.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/block/batch.h"
#include "models/ops/delta_rule/device_table_cuda.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/models/cases.h"

namespace packtrain::delta_rule_test {
namespace {

using Boundaries = std::vector<std::int32_t>;

class DeltaRule : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, DeltaRule, testing::ValuesIn(operator_cases()), case_name);

struct Sizes {
  std::int64_t key_heads;
  std::int64_t heads;
  std::int64_t keys;    // of a head
  std::int64_t values;  // of a head
};

DeltaRuleInputs inputs_of(const OperatorCase& on, std::int64_t num_rows, const Sizes& sizes) {
  OperatorCase numbers = on;
  numbers.dtype = at::kFloat;
  const double length = 1.0 / std::sqrt(static_cast<double>(sizes.keys));
  const at::Tensor decay = random_tensor(numbers, {num_rows, sizes.heads}, "g");
  return {random_tensor(on, {num_rows, sizes.key_heads, sizes.keys}, "q"),
          random_tensor(on, {num_rows, sizes.key_heads, sizes.keys}, "k") * length,
          random_tensor(on, {num_rows, sizes.heads, sizes.values}, "v"), decay * decay * -0.3,
          at::sigmoid(random_tensor(numbers, {num_rows, sizes.heads}, "beta"))};
}

std::vector<at::Tensor> list_of(const DeltaRuleInputs& inputs) {
  return {inputs.q, inputs.k, inputs.v, inputs.g, inputs.beta};
}

// The formula of delta_rule.h, one row and one head after another.
at::Tensor recurrence(const std::vector<at::Tensor>& in, const Boundaries& boundaries,
                      double scale) {
  const std::int64_t num_heads = in[2].size(1);
  const std::int64_t group = num_heads / in[0].size(1);
  std::vector<at::Tensor> rows;
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    std::vector<at::Tensor> states(
        static_cast<std::size_t>(num_heads),
        at::zeros({in[1].size(2), in[2].size(2)}, at::TensorOptions(at::kDouble)));
    for (std::int64_t t = boundaries[s]; t < boundaries[s + 1]; ++t) {
      std::vector<at::Tensor> outputs;
      for (std::int64_t h = 0; h < num_heads; ++h) {
        at::Tensor& state = states[static_cast<std::size_t>(h)];
        const at::Tensor k = in[1][t][h / group];
        state = state * at::exp(in[3][t][h]);
        const at::Tensor d = in[4][t][h] * (in[2][t][h] - at::matmul(state.t(), k));
        state = state + at::outer(k, d);
        outputs.push_back(at::matmul(state.t(), in[0][t][h / group]) * scale);
      }
      rows.push_back(at::stack(outputs));
    }
  }
  return at::stack(rows);
}

void expect_recurrence(const OperatorCase& on, const Boundaries& boundaries, const Sizes& sizes) {
  const std::int64_t num_rows = boundaries.back();
  const DeltaRuleInputs inputs = inputs_of(on, num_rows, sizes);
  const DeltaRuleOptions options{boundaries, 0.4};
  const at::Tensor grad = random_tensor(on, inputs.v.sizes(), "d o");
  poison_free_memory(on);
  const at::Tensor got = delta_rule_forward(inputs, options);
  poison_free_memory(on);
  const std::vector<at::Tensor> got_grads = list_of(delta_rule_backward(grad, inputs, options));

  std::vector<at::Tensor> leaves;  // on the CPU
  for (const at::Tensor& input : list_of(inputs)) leaves.push_back(reference_leaf(input));
  const at::Tensor want = recurrence(leaves, boundaries, options.scale);
  EXPECT_EQ(got.scalar_type(), on.dtype);
  expect_close(got, want.detach(), on.tolerance, "o");
  const auto want_grads = torch::autograd::grad({want}, leaves, {wide_copy(grad)});
  const std::vector<std::string> names = {"d q", "d k", "d v", "d g", "d beta"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(got_grads[i].scalar_type(), list_of(inputs)[i].scalar_type());
    expect_close(got_grads[i], want_grads[i], on.tolerance, names[i]);
  }
}

TEST_P(DeltaRule, OneSequenceIsItsRecurrence) {
  for (const std::int32_t length : {1, 2, 63, 64, 65, 130}) {
    SCOPED_TRACE(length);
    expect_recurrence(GetParam(), {0, length}, {2, 2, 5, 7});
  }
}

TEST_P(DeltaRule, EachOfSeveralSequencesIsItsOwnRecurrence) {
  expect_recurrence(GetParam(), {0, 1, 2, 67, 131, 131, 140}, {3, 3, 6, 5});
}

// Kernels on tensor cores take these sizes in bfloat16.
TEST_P(DeltaRule, HeadsOfWholeVectorsHaveTheirRecurrence) {
  expect_recurrence(GetParam(), {0, 1, 65, 65, 130}, {1, 2, 64, 64});
  expect_recurrence(GetParam(), {0, 66, 70}, {1, 1, 128, 128});
  expect_recurrence(GetParam(), {0, 66}, {1, 1, 96, 192});
  expect_recurrence(GetParam(), {0, 20, 150}, {1, 3, 40, 72});
}

TEST_P(DeltaRule, SequencesOfOneRowHaveTheirRecurrence) {
  Boundaries boundaries(301);
  std::iota(boundaries.begin(), boundaries.end(), 0);
  expect_recurrence(GetParam(), boundaries, {1, 2, 16, 8});
}

TEST_P(DeltaRule, HeadsOfValuesShareThoseOfQueriesAndKeys) {
  expect_recurrence(GetParam(), {0, 9, 80}, {2, 6, 4, 3});
}

TEST_P(DeltaRule, OneHeadLeavesItsInputsAsTheyAre) {
  const OperatorCase& on = GetParam();
  const DeltaRuleInputs inputs = inputs_of(on, 20, {1, 1, 5, 6});
  std::vector<at::Tensor> before;
  for (const at::Tensor& input : list_of(inputs)) before.push_back(input.clone());
  const Boundaries boundaries = {0, 1, 20};
  const at::Tensor grad = random_tensor(on, inputs.v.sizes(), "d o");
  delta_rule_forward(inputs, {boundaries, 0.5});
  delta_rule_backward(grad, inputs, {boundaries, 0.5});
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(list_of(inputs)[i].equal(before[i]));
}

DeltaRuleInputs rows_of(const DeltaRuleInputs& all, std::int64_t begin, std::int64_t end) {
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, end - begin); };
  return {part(all.q), part(all.k), part(all.v), part(all.g), part(all.beta)};
}

void expect_no_influence(const OperatorCase& on, const Sizes& sizes,
                         const Boundaries& boundaries = {0, 3, 100, 101, 210}) {
  const DeltaRuleInputs inputs = inputs_of(on, boundaries.back(), sizes);
  const at::Tensor grad = random_tensor(on, inputs.v.sizes(), "d o");
  const at::Tensor packed = delta_rule_forward(inputs, {boundaries, 1.0});
  const DeltaRuleInputs grads = delta_rule_backward(grad, inputs, {boundaries, 1.0});
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    const std::int32_t begin = boundaries[s], end = boundaries[s + 1];
    const DeltaRuleInputs own = rows_of(inputs, begin, end);
    const Boundaries alone = {0, end - begin};
    EXPECT_TRUE(delta_rule_forward(own, {alone, 1.0}).equal(packed.narrow(0, begin, end - begin)));
    const auto got =
        list_of(delta_rule_backward(grad.narrow(0, begin, end - begin), own, {alone, 1.0}));
    const auto want = list_of(rows_of(grads, begin, end));
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << i;
  }
}

TEST_P(DeltaRule, OtherSequencesChangeNoBit) {
  expect_no_influence(GetParam(), {2, 4, 5, 7});
  expect_no_influence(GetParam(), {2, 4, 128, 64});
}

// With 132 multiprocessors, blocks of threads have 128 columns of the state for the pack, and 32
// for a sequence (chunk_table_test.cpp).
TEST_P(DeltaRule, OtherSequencesOfManyHeadsChangeNoBit) {
  Boundaries boundaries = {0};
  for (std::int32_t s = 0; s < 16; ++s) boundaries.push_back(boundaries.back() + 1 + 4 * s);
  boundaries.push_back(boundaries.back() + 66);
  expect_no_influence(GetParam(), {16, 32, 128, 128}, boundaries);
}

// On a GPU many blocks of threads have other tiles than few.
TEST_P(DeltaRule, ManyOtherSequencesChangeNoBit) {
  const OperatorCase& on = GetParam();
  constexpr std::int32_t kRows = 66;
  constexpr std::int32_t kSequences = 70;
  const DeltaRuleInputs one = inputs_of(on, kRows, {2, 4, 16, 64});
  const at::Tensor grad = random_tensor(on, one.v.sizes(), "d o");
  const auto many = [&](const at::Tensor& x) {
    std::vector<std::int64_t> repeats(static_cast<std::size_t>(x.dim()), 1);
    repeats.front() = kSequences;
    return x.repeat(repeats);
  };
  Boundaries boundaries;
  for (std::int32_t s = 0; s <= kSequences; ++s) boundaries.push_back(s * kRows);
  const DeltaRuleInputs all = {many(one.q), many(one.k), many(one.v), many(one.g), many(one.beta)};
  const Boundaries alone = {0, kRows};
  const DeltaRuleInputs own = delta_rule_backward(grad, one, {alone, 1.0});
  const DeltaRuleInputs got = delta_rule_backward(many(grad), all, {boundaries, 1.0});
  EXPECT_TRUE(delta_rule_forward(all, {boundaries, 1.0})
                  .equal(many(delta_rule_forward(one, {alone, 1.0}))));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(list_of(got)[i].equal(many(list_of(own)[i]))) << i;
  }
}

TEST_P(DeltaRule, TakesRowsOfALargerTensor) {
  const OperatorCase& on = GetParam();
  const DeltaRuleInputs whole = inputs_of(on, 80, {2, 2, 16, 16});
  const auto wide = [](const at::Tensor& x) { return at::cat({x, x}, 1).narrow(1, 0, x.size(1)); };
  const DeltaRuleInputs parts = {wide(whole.q), wide(whole.k), wide(whole.v), whole.g, whole.beta};
  const at::Tensor grad = random_tensor(on, whole.v.sizes(), "d o");
  const Boundaries boundaries = {0, 30, 80};
  EXPECT_TRUE(delta_rule_forward(parts, {boundaries, 1.0})
                  .equal(delta_rule_forward(whole, {boundaries, 1.0})));
  const auto got = list_of(delta_rule_backward(grad, parts, {boundaries, 1.0}));
  const auto want = list_of(delta_rule_backward(grad, whole, {boundaries, 1.0}));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << i;
}

TEST_P(DeltaRule, CallsOfABatchShareTheTablesOfItsBoundaries) {
  const OperatorCase& on = GetParam();
  const Boundaries boundaries = {0, 30, 30, 110};
  BatchState batch;
  const DeltaRuleOptions shared{boundaries, 1.0, &batch.delta_rule_tables};
  // Another number of heads, then the first one again.
  for (const Sizes& sizes : {Sizes{2, 4, 16, 16}, Sizes{1, 2, 16, 40}, Sizes{2, 4, 16, 16}}) {
    const DeltaRuleInputs inputs = inputs_of(on, boundaries.back(), sizes);
    const at::Tensor grad = random_tensor(on, inputs.v.sizes(), "d o");
    EXPECT_TRUE(
        delta_rule_forward(inputs, shared).equal(delta_rule_forward(inputs, {boundaries, 1.0})));
    const auto got = list_of(delta_rule_backward(grad, inputs, shared));
    const auto want = list_of(delta_rule_backward(grad, inputs, {boundaries, 1.0}));
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(want[i])) << i;
  }
  const std::size_t num_tables =
      batch.delta_rule_tables == nullptr ? 0 : batch.delta_rule_tables->of_values.size();
  EXPECT_EQ(num_tables, on.device.is_cuda() ? 2U : 0U);
}

TEST(DeltaRuleTables, AreThoseOfTheBoundariesAlone) {
  BatchState batch;
  batch.delta_rule_tables = std::make_shared<DeltaRuleTables>();
  batch.forget_boundaries();
  EXPECT_EQ(batch.delta_rule_tables, nullptr);
}

TEST_P(DeltaRule, StrongDecaysDoNotOverflow) {
  const OperatorCase& on = GetParam();
  DeltaRuleInputs inputs = inputs_of(on, 100, {1, 2, 8, 8});
  inputs.g.fill_(-60.0);  // exp(60) of each row before is beyond float32
  const Boundaries boundaries = {0, 100};
  const at::Tensor output = delta_rule_forward(inputs, {boundaries, 1.0});
  EXPECT_TRUE(output.isfinite().all().item<bool>());
  const at::Tensor grad = random_tensor(on, inputs.v.sizes(), "d o");
  for (const at::Tensor& each : list_of(delta_rule_backward(grad, inputs, {boundaries, 1.0}))) {
    EXPECT_TRUE(each.isfinite().all().item<bool>());
  }
}

TEST_P(DeltaRule, NoRowsHaveNoOutput) {
  const DeltaRuleInputs inputs = inputs_of(GetParam(), 0, {1, 2, 4, 3});
  const Boundaries boundaries = {0, 0};
  EXPECT_EQ(delta_rule_forward(inputs, {boundaries, 1.0}).sizes(), at::IntArrayRef({0, 2, 3}));
}

TEST_P(DeltaRule, ShapesAndBoundariesThatDoNotFitAreRefused) {
  const DeltaRuleInputs inputs = inputs_of(GetParam(), 6, {2, 4, 4, 3});
  const Boundaries short_ones = {0, 5};
  const Boundaries whole = {0, 6};
  EXPECT_NE(test::error_of([&] { delta_rule_forward(inputs, {short_ones, 1.0}); })
                .message()
                .find("boundaries"),
            std::string::npos);
  DeltaRuleInputs wrong = inputs;
  wrong.k = inputs.k.narrow(2, 0, 3);
  EXPECT_NE(test::error_of([&] { delta_rule_forward(wrong, {whole, 1.0}); })
                .message()
                .find("k [6, 2, 3]"),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain::delta_rule_test
