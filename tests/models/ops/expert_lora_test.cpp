// The low-rank update of experts, in both projections, against the formula in float64.
#include "models/ops/experts/expert_lora.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <string>
#include <vector>

#include "models/ops/activation/activation.h"
#include "models/ops/experts/expert_linear.h"
#include "tests/models/cases.h"

namespace packtrain::expert_lora_test {
namespace {

constexpr Activation kSwiglu{ActivationKind::kSilu, /*gated=*/true};
constexpr double kUpScale = 1.5;
constexpr double kDownScale = 0.25;

class ExpertLora : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ExpertLora, testing::ValuesIn(operator_cases()), case_name);

struct Sizes {
  std::int64_t num_rows;
  std::int64_t hidden;
  std::int64_t inner;
  std::int64_t num_experts;
  std::int64_t per_row;
  std::int64_t rank;
  bool bias;
};

constexpr Sizes kSizes[] = {
    {0, 8, 16, 4, 2, 2, false},       // no row
    {1, 8, 16, 4, 2, 8, true},        // experts without a row
    {7, 5, 3, 6, 1, 1, false},        // one expert a row, odd widths
    {130, 24, 17, 5, 4, 3, true},     // the last expert has no row
    {130, 64, 32, 16, 3, 16, false},  // what the fused kernels take
};

enum Weight { kUp, kUpBias, kUpA, kUpB, kDown, kDownBias, kDownA, kDownB, kNumWeights };
using Weights = std::array<Parameter, kNumWeights>;

Weights make_weights(const OperatorCase& on, const Sizes& s, at::ScalarType grad) {
  const std::int64_t e = s.num_experts;
  return {random_parameter(on, {e, 2 * s.inner, s.hidden}, "up", grad),
          random_parameter(on, {e, 2 * s.inner}, "up bias", grad),
          random_parameter(on, {e, s.rank, s.hidden}, "up a", grad),
          random_parameter(on, {e, 2 * s.inner, s.rank}, "up b", grad),
          random_parameter(on, {e, s.hidden, s.inner}, "down", grad),
          random_parameter(on, {e, s.hidden}, "down bias", grad),
          random_parameter(on, {e, s.rank, s.inner}, "down a", grad),
          random_parameter(on, {e, s.hidden, s.rank}, "down b", grad)};
}

// The experts of each row, distinct, none of them the last one; [T, k].
at::Tensor chosen_experts(const OperatorCase& on, const Sizes& s) {
  std::vector<std::int32_t> experts;
  for (std::int64_t row = 0; row < s.num_rows; ++row) {
    for (std::int64_t slot = 0; slot < s.per_row; ++slot) {
      experts.push_back(static_cast<std::int32_t>((3 * row + slot) % (s.num_experts - 1)));
    }
  }
  return int_tensor(on, experts).view({s.num_rows, s.per_row});
}

struct Rows {
  at::Tensor x;
  at::Tensor grad_output;
  at::Tensor routing;  // float32 [T, k]
  at::Tensor experts;
};

Rows make_rows(const OperatorCase& on, const Sizes& s) {
  const OperatorCase full{on.device, at::kFloat, on.tolerance};
  return {random_tensor(on, {s.num_rows, s.hidden}, "x"),
          random_tensor(on, {s.num_rows, s.hidden}, "grad_output"),
          at::softmax(random_tensor(full, {s.num_rows, s.per_row}, "routing"), 1),
          chosen_experts(on, s)};
}

struct Computed {
  at::Tensor y;
  at::Tensor dx;
  at::Tensor grad_routing;
};

Computed run_experts(const Rows& rows, const Weights& w, const Sizes& s) {
  const TokenPermutation order = sort_tokens_by_expert(rows.experts, s.num_experts);
  const ExpertProjection up{
      &w[kUp], s.bias ? &w[kUpBias] : nullptr, {}, {&w[kUpA], &w[kUpB], kUpScale}};
  const ExpertProjection down{
      &w[kDown], s.bias ? &w[kDownBias] : nullptr, {}, {&w[kDownA], &w[kDownB], kDownScale}};
  const ExpertsHidden hidden = dispatch_forward(rows.x, order, up, kSwiglu);
  Computed run;
  run.y = combine_forward(hidden.h, rows.routing, order, down, rows.x);
  const CombineGradients back =
      combine_backward(rows.grad_output, hidden.u, rows.routing, order, down, kSwiglu);
  run.grad_routing = back.weights;
  const at::Tensor low = dispatch_backward_low_rank(back.u, order, up);
  dispatch_backward_weight(back.u, low, rows.x, order, up);
  run.dx = dispatch_backward_input(back.u, low, order, up, rows.grad_output);
  return run;
}

at::Tensor swiglu(const at::Tensor& x) {
  const std::int64_t width = x.size(1) / 2;
  const at::Tensor gate = x.narrow(1, 0, width);
  return gate * at::sigmoid(gate) * x.narrow(1, width, width);
}

// Every expert for every row, with the merged weights, and weight 0 where it was not chosen.
at::Tensor formula(const at::Tensor& x, const at::Tensor& routing,
                   const std::array<at::Tensor, kNumWeights>& w, const at::Tensor& experts,
                   const Sizes& s) {
  const at::Tensor up = w[kUp] + kUpScale * at::matmul(w[kUpB], w[kUpA]);
  const at::Tensor down = w[kDown] + kDownScale * at::matmul(w[kDownB], w[kDownA]);
  const at::Tensor weights =
      at::zeros({s.num_rows, s.num_experts}, at::kDouble).scatter(1, experts, routing);
  at::Tensor y = x;
  for (std::int64_t e = 0; e < s.num_experts; ++e) {
    at::Tensor u = at::matmul(x, up[e].t());
    if (s.bias) u = u + w[kUpBias][e];
    at::Tensor out = at::matmul(swiglu(u), down[e].t());
    if (s.bias) out = out + w[kDownBias][e];
    y = y + weights.narrow(1, e, 1) * out;
  }
  return y;
}

void expect_matches_formula(const OperatorCase& on, const Sizes& s, at::ScalarType grad_dtype) {
  const Rows rows = make_rows(on, s);
  Weights weights = make_weights(on, s, grad_dtype);
  for (const int frozen : {kUp, kUpBias, kDown, kDownBias}) weights[frozen].grad = at::Tensor();
  poison_free_memory(on);
  const Computed run = run_experts(rows, weights, s);
  std::vector<at::Tensor> leaves = {reference_leaf(rows.x), reference_leaf(rows.routing)};
  std::array<at::Tensor, kNumWeights> wide;
  for (int i = 0; i < kNumWeights; ++i) wide[i] = wide_copy(weights[i].value);
  constexpr int kTrained[] = {kUpA, kUpB, kDownA, kDownB};
  for (const int i : kTrained) leaves.push_back(wide[i] = reference_leaf(weights[i].value));
  const at::Tensor experts = rows.experts.to(at::kCPU, at::kLong);
  const at::Tensor want = formula(leaves[0], leaves[1], wide, experts, s);
  const auto grads = torch::autograd::grad({want}, leaves, {wide_copy(rows.grad_output)});
  expect_close(run.y, want, on.tolerance, "y");
  expect_close(run.dx, grads[0], on.tolerance, "d x");
  // A sum of products of rounded numbers, which nearly cancel where there is one row.
  expect_close(run.grad_routing, grads[1], 4 * on.tolerance, "d routing weights");
  for (const double times : {1.0, 2.0}) {
    for (std::size_t i = 0; i < std::size(kTrained); ++i) {
      expect_close(weights[kTrained[i]].grad, grads[i + 2] * times, 2 * on.tolerance,
                   "gradient " + std::to_string(kTrained[i]));
      weights[kTrained[i]].accumulate = true;
    }
    if (times == 1.0) run_experts(rows, weights, s);
  }
}

TEST_P(ExpertLora, MatchesTheFormulaForwardAndBackward) {
  const OperatorCase& on = GetParam();
  for (const Sizes& sizes : kSizes) {
    for (const at::ScalarType grad : {on.dtype, at::kFloat}) {
      SCOPED_TRACE(std::to_string(sizes.num_rows) + " rows, " + std::to_string(sizes.num_experts) +
                   " experts, rank " + std::to_string(sizes.rank));
      expect_matches_formula(on, sizes, grad);
    }
  }
}

TEST_P(ExpertLora, TwoRunsHaveEqualBits) {
  const OperatorCase& on = GetParam();
  const Sizes sizes{130, 40, 32, 8, 3, 8, true};
  const Rows rows = make_rows(on, sizes);
  const Weights first = make_weights(on, sizes, at::kFloat);
  const Weights second = make_weights(on, sizes, at::kFloat);
  const Computed one = run_experts(rows, first, sizes);
  const Computed two = run_experts(rows, second, sizes);
  EXPECT_TRUE(one.y.equal(two.y));
  EXPECT_TRUE(one.dx.equal(two.dx));
  for (const int i : {kUpA, kUpB, kDownA, kDownB}) EXPECT_TRUE(first[i].grad.equal(second[i].grad));
}

}  // namespace
}  // namespace packtrain::expert_lora_test
