// A mixture of experts, put together from its operators, against the formula in float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/ops/activation/activation.h"
#include "models/ops/experts/expert_linear.h"
#include "models/ops/experts/routing.h"
#include "models/ops/linear/linear.h"
#include "tests/models/cases.h"

namespace packtrain::experts_test {
namespace {

constexpr Activation kSwiglu{ActivationKind::kSilu, /*gated=*/true};

class Experts : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Experts, testing::ValuesIn(operator_cases()), case_name);

struct Sizes {
  std::int64_t num_rows;
  std::int64_t hidden;
  std::int64_t inner;
  std::int64_t num_experts;
  std::int64_t per_row;
};

constexpr Sizes kSizes[] = {
    {0, 8, 16, 4, 2},      // no row
    {1, 8, 16, 4, 2},      // experts without a row
    {7, 5, 3, 6, 1},       // one expert a row, odd widths
    {130, 24, 17, 5, 5},   // every expert
    {130, 40, 32, 16, 3},  //
};

enum Weight { kRouter, kRouterBias, kUp, kUpBias, kDown, kDownBias, kNumWeights };

std::array<Parameter, kNumWeights> make_weights(const OperatorCase& on, const Sizes& s,
                                                at::ScalarType grad) {
  const std::int64_t e = s.num_experts;
  return {random_parameter(on, {e, s.hidden}, "router", grad),
          random_parameter(on, {e}, "router bias", grad),
          random_parameter(on, {e, 2 * s.inner, s.hidden}, "up", grad),
          random_parameter(on, {e, 2 * s.inner}, "up bias", grad),
          random_parameter(on, {e, s.hidden, s.inner}, "down", grad),
          random_parameter(on, {e, s.hidden}, "down bias", grad)};
}

at::Tensor swiglu(const at::Tensor& x) {
  const std::int64_t width = x.size(1) / 2;
  const at::Tensor gate = x.narrow(1, 0, width);
  return gate * at::sigmoid(gate) * x.narrow(1, width, width);
}

// Every expert for every row, with weight 0 where it was not chosen.
at::Tensor formula(const at::Tensor& x, const std::array<at::Tensor, kNumWeights>& w,
                   const at::Tensor& experts, bool normalize) {
  const at::Tensor p = at::softmax(at::matmul(x, w[kRouter].t()) + w[kRouterBias], 1);
  at::Tensor chosen = at::gather(p, 1, experts);
  if (normalize) chosen = chosen / chosen.sum(1, /*keepdim=*/true);
  const at::Tensor weights = at::zeros_like(p).scatter(1, experts, chosen);
  at::Tensor y = x;
  for (std::int64_t e = 0; e < weights.size(1); ++e) {
    const at::Tensor up = at::matmul(x, w[kUp][e].t()) + w[kUpBias][e];
    const at::Tensor out = at::matmul(swiglu(up), w[kDown][e].t()) + w[kDownBias][e];
    y = y + weights.narrow(1, e, 1) * out;
  }
  return y;
}

struct Run {
  Routing routing;
  at::Tensor y;
  at::Tensor dx;
};

// Forward and backward as a layer runs them. With weighted inputs no projection has a bias.
Run run_experts(const at::Tensor& x, const at::Tensor& grad_output,
                const std::array<Parameter, kNumWeights>& w, const RoutingOptions& options,
                bool weighted_inputs = false) {
  Run run;
  run.routing = route(x, {w[kRouter], &w[kRouterBias]}, options, {});
  const TokenPermutation order =
      sort_tokens_by_expert(run.routing.experts, w[kRouter].value.size(0));
  ExpertProjection up{&w[kUp], &w[kUpBias]};
  ExpertProjection down{&w[kDown], &w[kDownBias]};
  at::Tensor of_outputs = run.routing.weights;
  if (weighted_inputs) {
    up.bias = down.bias = nullptr;
    up.input_weights = down.input_weights = std::exchange(of_outputs, at::Tensor());
  }
  const ExpertsHidden hidden = dispatch_forward(x, order, up, kSwiglu);
  run.y = combine_forward(hidden.h, of_outputs, order, down, x);
  const CombineGradients back =
      combine_backward(grad_output, hidden.u, of_outputs, order, down, kSwiglu);
  const at::Tensor low = dispatch_backward_low_rank(back.u, order, up);
  dispatch_backward_weight(back.u, low, x, order, up);
  run.dx = dispatch_backward_input(back.u, low, order, up, grad_output);
  const at::Tensor grad_logits =
      routing_backward(back.weights, {}, run.routing, w[kRouter].value.size(0), options)
          .to(x.scalar_type());
  linear_backward_weight(grad_logits, x, w[kRouter], &w[kRouterBias], {});
  run.dx = linear_backward_input(grad_logits, w[kRouter], {}, run.dx);
  return run;
}

void expect_matches_formula(const OperatorCase& on, const Sizes& s, bool normalize,
                            at::ScalarType grad_dtype) {
  const at::Tensor x = random_tensor(on, {s.num_rows, s.hidden}, "x");
  const at::Tensor grad_output = random_tensor(on, {s.num_rows, s.hidden}, "grad_output");
  std::array<Parameter, kNumWeights> weights = make_weights(on, s, grad_dtype);
  weights[kRouterBias].value[s.num_experts - 1].fill_(s.per_row < s.num_experts ? -1e3 : 0);
  const RoutingOptions options{s.per_row, normalize, false};
  poison_free_memory(on);
  const Run run = run_experts(x, grad_output, weights, options);

  std::vector<at::Tensor> leaves = {reference_leaf(x)};
  std::array<at::Tensor, kNumWeights> wide;
  for (int i = 0; i < kNumWeights; ++i) {
    leaves.push_back(wide[i] = reference_leaf(weights[i].value));
  }
  const at::Tensor experts = run.routing.experts.to(at::kCPU, at::kLong);
  const at::Tensor want = formula(leaves[0], wide, experts, normalize);
  const auto grads = torch::autograd::grad({want}, leaves, {wide_copy(grad_output)});
  EXPECT_EQ(run.y.scalar_type(), on.dtype);
  expect_close(run.y, want, on.tolerance, "y");
  expect_close(run.dx, grads[0], on.tolerance, "d x");
  for (const double times : {1.0, 2.0}) {
    for (int i = 0; i < kNumWeights; ++i) {
      expect_close(weights[i].grad, grads[i + 1] * times, 2 * on.tolerance,
                   "gradient " + std::to_string(i));
      weights[i].accumulate = true;
    }
    if (times == 1.0) run_experts(x, grad_output, weights, options);
  }
}

TEST_P(Experts, MatchTheFormulaForwardAndBackward) {
  const OperatorCase& on = GetParam();
  for (const Sizes& sizes : kSizes) {
    for (const bool normalize : {false, true}) {
      for (const at::ScalarType grad : {on.dtype, at::kFloat}) {
        SCOPED_TRACE(std::to_string(sizes.num_rows) + " rows, " +
                     std::to_string(sizes.num_experts) + " experts, " +
                     std::to_string(sizes.per_row) + " a row, " +
                     (normalize ? "normalized" : "as they are"));
        expect_matches_formula(on, sizes, normalize, grad);
      }
    }
  }
}

// Llama 4's: the sigmoid of a chosen logit multiplies the input of its expert.
at::Tensor formula_of_inputs(const at::Tensor& x, const std::array<at::Tensor, kNumWeights>& w,
                             const at::Tensor& experts) {
  const at::Tensor scores = at::sigmoid(at::matmul(x, w[kRouter].t()) + w[kRouterBias]);
  const at::Tensor weights =
      at::zeros_like(scores).scatter(1, experts, at::gather(scores, 1, experts));
  at::Tensor y = x;
  for (std::int64_t e = 0; e < weights.size(1); ++e) {
    const at::Tensor up = at::matmul(x * weights.narrow(1, e, 1), w[kUp][e].t());
    y = y + at::matmul(swiglu(up), w[kDown][e].t());
  }
  return y;
}

void expect_matches_formula_of_inputs(const OperatorCase& on, const Sizes& s) {
  const at::Tensor x = random_tensor(on, {s.num_rows, s.hidden}, "x");
  const at::Tensor grad_output = random_tensor(on, {s.num_rows, s.hidden}, "grad_output");
  const std::array<Parameter, kNumWeights> weights = make_weights(on, s, on.dtype);
  poison_free_memory(on);
  const RoutingOptions options{
      .experts_per_row = s.per_row, .normalize = false, .kind = RouterKind::kSigmoid};
  const Run run = run_experts(x, grad_output, weights, options, /*weighted_inputs=*/true);

  std::vector<at::Tensor> leaves = {reference_leaf(x)};
  std::array<at::Tensor, kNumWeights> wide;
  for (int i = 0; i < kNumWeights; ++i) wide[i] = reference_leaf(weights[i].value);
  for (const Weight i : {kRouter, kRouterBias, kUp, kDown}) leaves.push_back(wide[i]);
  const at::Tensor experts = run.routing.experts.to(at::kCPU, at::kLong);
  const at::Tensor want = formula_of_inputs(leaves[0], wide, experts);
  const auto grads = torch::autograd::grad({want}, leaves, {wide_copy(grad_output)});
  expect_close(run.y, want, on.tolerance, "y");
  expect_close(run.dx, grads[0], 2 * on.tolerance, "d x");
  std::size_t next = 1;
  for (const Weight i : {kRouter, kRouterBias, kUp, kDown}) {
    expect_close(weights[i].grad, grads[next++], 2 * on.tolerance, "gradient " + std::to_string(i));
  }
}

TEST_P(Experts, WithWeightedInputsMatchTheFormulaForwardAndBackward) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(std::to_string(sizes.num_rows) + " rows, " + std::to_string(sizes.per_row) +
                 " a row");
    expect_matches_formula_of_inputs(GetParam(), sizes);
  }
}

TEST_P(Experts, FrozenWeightsAreSkipped) {
  const OperatorCase& on = GetParam();
  const Sizes sizes{9, 8, 16, 4, 2};
  std::array<Parameter, kNumWeights> weights = make_weights(on, sizes, on.dtype);
  for (Parameter& weight : weights) weight.grad = at::Tensor();
  const at::Tensor x = random_tensor(on, {9, 8}, "x");
  EXPECT_TRUE(run_experts(x, x, weights, {2, false, false}).dx.defined());
  for (const Parameter& weight : weights) EXPECT_FALSE(weight.grad.defined());
}

}  // namespace
}  // namespace packtrain::experts_test
