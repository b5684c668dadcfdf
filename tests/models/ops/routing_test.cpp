// The choice of experts, its gradient, and the order of rows by expert.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "models/ops/experts/routing.h"
#include "models/ops/experts/token_permutation.h"
#include "models/ops/linear/linear.h"
#include "tests/models/cases.h"

namespace packtrain::routing_test {
namespace {

class Routings : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Routings, testing::ValuesIn(operator_cases()), case_name);

TEST_P(Routings, OfEqualScoresTheLowestExpertIsFirst) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {130, 8}, "x");
  Parameter router = random_parameter(on, {6, 8}, "router");
  router.value.copy_(router.value[0].expand({6, 8}).clone());  // all equal
  for (const bool normalize : {false, true}) {
    const Routing routing = route(x, {router}, {3, normalize, false}, {});
    for (std::int64_t s = 0; s < 3; ++s) {
      EXPECT_TRUE((routing.experts.select(1, s) == s).all().item<bool>()) << s;
    }
    expect_close(routing.weights, at::full({130, 3}, normalize ? 1.0 / 3 : 1.0 / 6), 1e-6,
                 "weights");
  }
}

TEST_P(Routings, ZerosOfBothSignsAreEqual) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = at::zeros_like(random_tensor(on, {33, 8}, "x"));
  Parameter router = random_parameter(on, {6, 8}, "router");  // of both signs
  Parameter bias = random_parameter(on, {6}, "bias");
  bias.value.copy_(at::full({6}, 0.0));
  bias.value.slice(0, 0, 6, 2).neg_();
  const Routing routing = route(x, {router, &bias}, {6, true, false}, {});
  for (std::int64_t s = 0; s < 6; ++s) {
    EXPECT_TRUE((routing.experts.select(1, s) == s).all().item<bool>()) << s;
  }
}

TEST_P(Routings, WithScoresThatAreNoNumbersTheChosenAreStillDistinct) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {33, 8}, "x");
  Parameter router = random_parameter(on, {40, 8}, "router");
  router.value[7].fill_(std::nan(""));
  router.value[35].fill_(-std::nan(""));
  router.value[12].fill_(std::numeric_limits<double>::infinity());  // of a sum: NaN or infinite
  const Routing routing = route(x, {router}, {40, false, false}, {});
  const auto sorted = std::get<0>(routing.experts.to(at::kCPU).sort(1));
  for (std::int64_t e = 0; e < 40; ++e) {
    EXPECT_TRUE((sorted.select(1, e) == e).all().item<bool>()) << e;
  }
  EXPECT_TRUE((routing.experts.select(1, 0) == 7).all().item<bool>());
  EXPECT_TRUE(routing.weights.isnan().all().item<bool>());
}

TEST_P(Routings, TheLargestScoresAreChosenInFallingOrder) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {130, 24}, "x");
  for (const auto& [num_experts, per_row] : {std::pair(16, 4), std::pair(70, 40)}) {
    SCOPED_TRACE(per_row);
    const Parameter router = random_parameter(on, {num_experts, 24}, "router");
    const Routing routing = route(x, {router}, {per_row, false, false}, {});
    const at::Tensor p = at::softmax(at::matmul(wide_copy(x), wide_copy(router.value).t()), 1);
    expect_close(routing.weights, std::get<0>(p.topk(per_row, 1)), 1e-5, "weights");
    expect_close(routing.weights, p.gather(1, routing.experts.to(at::kCPU, at::kLong)), 1e-5,
                 "weights of the chosen");
    expect_close(routing.probabilities, p, 1e-5, "probabilities");
  }
}

struct Choice {
  std::int64_t num_experts;
  std::int64_t per_row;
  bool normalize;
};

void expect_gradient_of_probabilities(const OperatorCase& on, const Choice& choice) {
  const at::Tensor x = random_tensor(on, {7, 8}, "x");
  const Parameter router = random_parameter(on, {choice.num_experts, 8}, "router");
  OperatorCase numbers = on;
  numbers.dtype = at::kFloat;
  const at::Tensor grad_weights = random_tensor(numbers, {7, choice.per_row}, "d weights");
  const at::Tensor grad_p = random_tensor(numbers, {7, choice.num_experts}, "d probabilities");
  const RoutingOptions options{choice.per_row, choice.normalize, /*keep_probabilities=*/true};
  const Routing routing = route(x, {router}, options, {});
  const at::Tensor z = at::matmul(wide_copy(x), wide_copy(router.value).t());
  const at::Tensor leaf = reference_leaf(z);
  const at::Tensor p = at::softmax(leaf, 1);
  at::Tensor w = at::gather(p, 1, routing.experts.to(at::kCPU, at::kLong));
  if (choice.normalize) w = w / w.sum(1, true);
  const auto grads =
      torch::autograd::grad({w, p}, {leaf}, {wide_copy(grad_weights), wide_copy(grad_p)});
  expect_close(routing_backward(grad_weights, grad_p, routing, choice.num_experts, options),
               grads[0], 1e-5, "d z");
}

TEST_P(Routings, AGradientOfTheProbabilitiesIsAdded) {
  for (const bool normalize : {false, true}) {
    expect_gradient_of_probabilities(GetParam(), {5, 2, normalize});
    expect_gradient_of_probabilities(GetParam(), {70, 40, normalize});
  }
}

// A power of two, so that nothing rounds.
TEST_P(Routings, AFactorOfTheLogitsIsOneOfTheRouter) {
  const OperatorCase& on = GetParam();
  OperatorCase numbers = on;
  numbers.dtype = at::kFloat;
  const at::Tensor x = random_tensor(on, {33, 8}, "x");
  const Parameter router = random_parameter(on, {6, 8}, "router");
  const Parameter bias = random_parameter(on, {6}, "bias");
  const Parameter scaled{.value = router.value * 0.25, .grad = {}};
  const Parameter scaled_bias{.value = bias.value * 0.25, .grad = {}};
  const at::Tensor grad_weights = random_tensor(numbers, {33, 2}, "d weights");
  const at::Tensor grad_p = random_tensor(numbers, {33, 6}, "d probabilities");
  for (const RouterKind kind :
       {RouterKind::kSoftmax, RouterKind::kSigmoid, RouterKind::kSparseMixer}) {
    RoutingOptions options{.experts_per_row = 2, .keep_probabilities = true, .kind = kind};
    options.mixer_epsilon = 0.5;
    const Routing want = route(x, {scaled, &scaled_bias}, options, {});
    const at::Tensor slopes = kind == RouterKind::kSigmoid ? at::Tensor() : grad_p;
    const at::Tensor want_grad = routing_backward(grad_weights, slopes, want, 6, options);
    options.logit_multiplier = 0.25;
    const Routing got = route(x, {router, &bias}, options, {});
    EXPECT_TRUE(got.experts.equal(want.experts));
    EXPECT_TRUE(got.weights.equal(want.weights));
    EXPECT_TRUE(routing_backward(grad_weights, slopes, got, 6, options).equal(want_grad * 0.25));
  }
}

TEST_P(Routings, RowsAreSortedByExpertInTheirOrder) {
  const OperatorCase& on = GetParam();
  const at::Tensor experts = int_tensor(on, {3, 0, 0, 3, 5, 3, 0, 5}).view({4, 2});
  const TokenPermutation order = sort_tokens_by_expert(experts, 6);
  const auto same = [&](const at::Tensor& got, const std::vector<std::int32_t>& want) {
    return (got.reshape(-1) == int_tensor(on, want)).all().item<bool>();
  };
  EXPECT_TRUE(same(order.permuted_rows, {3, 0, 1, 4, 6, 5, 2, 7})) << order.permuted_rows;
  EXPECT_TRUE(same(order.ends, {3, 3, 3, 6, 6, 8})) << order.ends;
  EXPECT_TRUE(same(experts_of(order), {0, 0, 0, 3, 3, 3, 5, 5}));
}

struct Assignments {
  std::int64_t num_rows;
  std::int64_t per_row;
  std::int32_t num_experts;
};

// Some experts get many, some none.
std::vector<std::int32_t> some_experts(const Assignments& a) {
  std::vector<std::int32_t> experts;
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < a.num_rows * a.per_row; ++i) {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t random = state >> 8;
    const auto range = static_cast<std::uint32_t>(random % 3 == 0 ? 1 : a.num_experts);
    experts.push_back(static_cast<std::int32_t>(random / 3 % range));
  }
  return experts;
}

TEST_P(Routings, ManyAssignmentsAreSortedAndCounted) {
  const OperatorCase& on = GetParam();
  for (const Assignments& a : {Assignments{0, 2, 5},
                               {1, 1, 1},
                               {2000, 2, 8},
                               {5003, 4, 60},
                               {3001, 8, 128},
                               {700, 3, 20000}}) {
    SCOPED_TRACE(a.num_experts);
    const std::vector<std::int32_t> experts = some_experts(a);
    std::vector<std::int32_t> ends(static_cast<std::size_t>(a.num_experts));
    for (const std::int32_t expert : experts) ++ends[static_cast<std::size_t>(expert)];
    const std::vector<std::int32_t> counts = ends;
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    std::vector<std::int32_t> permuted_rows;
    std::vector<std::int32_t> next = ends;
    for (std::size_t e = 0; e < next.size(); ++e) next[e] -= counts[e];
    for (const std::int32_t expert : experts)
      permuted_rows.push_back(next[static_cast<std::size_t>(expert)]++);

    const at::Tensor of_rows = int_tensor(on, experts).view({a.num_rows, a.per_row});
    poison_free_memory(on);
    const TokenPermutation order = sort_tokens_by_expert(of_rows, a.num_experts);
    EXPECT_TRUE(order.permuted_rows.reshape(-1).equal(int_tensor(on, permuted_rows)));
    EXPECT_TRUE(order.ends.equal(int_tensor(on, ends)));
    const at::Tensor counted = at::zeros({a.num_experts}, of_rows.options().dtype(at::kFloat));
    count_tokens_per_expert(of_rows, {}, counted);
    EXPECT_TRUE(counted.to(at::kInt).equal(int_tensor(on, counts)));
  }
}

TEST_P(Routings, RowsThatDoNotCountAreLeftOut) {
  const OperatorCase& on = GetParam();
  const at::Tensor experts = int_tensor(on, {3, 0, 0, 3, 5, 3, 0, 5}).view({4, 2});
  const at::Tensor rows = int_tensor(on, {1, 0, 1, 1}).to(at::kFloat).view({4, 1});
  const at::Tensor counts = at::full({6}, 10.0, rows.options());
  count_tokens_per_expert(experts, rows, counts);
  EXPECT_TRUE(counts.to(at::kInt).equal(int_tensor(on, {12, 10, 10, 12, 10, 12})));
}

}  // namespace
}  // namespace packtrain::routing_test
