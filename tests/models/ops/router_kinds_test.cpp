// Routers that are no softmax: a sigmoid router with groups, and a sparse mixer. Their choices,
// weights and gradients are those of a formula in float64, row by row.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "models/ops/experts/routing.h"
#include "tests/models/cases.h"

namespace packtrain::router_kinds_test {
namespace {

class RouterKinds : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, RouterKinds, testing::ValuesIn(operator_cases()), case_name);

using Numbers = std::vector<double>;

Numbers row_of(const at::Tensor& values, std::int64_t row) {
  const at::Tensor flat = values[row].contiguous();
  const double* begin = flat.const_data_ptr<double>();
  return {begin, begin + flat.numel()};
}

// The places of the `count` largest numbers, largest first, of equal ones the first.
std::vector<std::int64_t> largest(const Numbers& numbers, std::int64_t count) {
  std::vector<std::int64_t> order(numbers.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    return numbers[static_cast<std::size_t>(a)] > numbers[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

std::vector<std::int64_t> choice_of_sigmoid(const Numbers& scores, const RoutingOptions& options) {
  const std::size_t size = scores.size() / static_cast<std::size_t>(options.num_groups);
  Numbers of_groups;
  for (std::size_t begin = 0; begin < scores.size() && size > 1; begin += size) {
    const Numbers group(scores.begin() + static_cast<std::ptrdiff_t>(begin),
                        scores.begin() + static_cast<std::ptrdiff_t>(begin + size));
    double sum = 0;
    for (const std::int64_t e : largest(group, 2)) sum += group[static_cast<std::size_t>(e)];
    of_groups.push_back(sum);
  }
  Numbers left(scores.size(), -std::numeric_limits<double>::infinity());
  if (size < 2) left = scores;
  for (const std::int64_t group :
       largest(of_groups, std::min<std::int64_t>(options.groups_per_row, std::ssize(of_groups)))) {
    for (std::size_t e = 0; e < size; ++e) {
      const std::size_t expert = static_cast<std::size_t>(group) * size + e;
      left[expert] = scores[expert];
    }
  }
  return largest(left, options.experts_per_row);
}

at::Tensor choices_of_sigmoid(const at::Tensor& scores, const RoutingOptions& options) {
  at::Tensor choices = at::zeros({scores.size(0), options.experts_per_row}, at::kLong);
  for (std::int64_t row = 0; row < scores.size(0); ++row) {
    const auto chosen = choice_of_sigmoid(row_of(scores, row), options);
    std::ranges::copy(chosen, choices[row].data_ptr<std::int64_t>());
  }
  return choices;
}

// A leaf of logits [rows, experts], what a router makes of it, and a random gradient of the
// weights.
struct Reference {
  at::Tensor logits;
  at::Tensor experts;
  at::Tensor weights;
};

Reference sigmoid_reference(const at::Tensor& logits, const at::Tensor& choice_bias,
                            const RoutingOptions& options) {
  const at::Tensor leaf = reference_leaf(logits);
  const at::Tensor scores = at::sigmoid(leaf);
  const at::Tensor experts = choices_of_sigmoid(scores.detach() + choice_bias, options);
  at::Tensor weights = at::gather(scores, 1, experts);
  if (options.normalize) weights = weights / (weights.sum(1, true) + options.sum_epsilon);
  return {leaf, experts, weights * options.weight_multiplier};
}

// Minus infinity at experts that do not compete or were chosen before.
at::Tensor competitors(const at::Tensor& logits, const std::vector<std::int64_t>& taken,
                       double epsilon) {
  at::Tensor mask = at::zeros(logits.sizes(), at::kDouble);
  Numbers left = row_of(logits.unsqueeze(0), 0);
  const Numbers all = left;
  for (const std::int64_t e : taken) {
    left[static_cast<std::size_t>(e)] = -std::numeric_limits<double>::infinity();
  }
  const double most = *std::ranges::max_element(left);
  for (std::size_t e = 0; e < all.size(); ++e) {
    const double distance = (most - all[e]) / std::max(std::abs(all[e]), most);
    if (std::isinf(left[e]) || distance > 2 * epsilon) {
      mask[static_cast<std::int64_t>(e)] = -std::numeric_limits<double>::infinity();
    }
  }
  return mask;
}

Reference mixer_reference(const at::Tensor& logits, const RoutingOptions& options) {
  const at::Tensor leaf = reference_leaf(logits);
  std::vector<at::Tensor> weights;
  at::Tensor experts = at::zeros({logits.size(0), 2}, at::kLong);
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    const auto chosen = largest(row_of(logits, row), 2);
    std::ranges::copy(chosen, experts[row].data_ptr<std::int64_t>());
    for (std::size_t i = 0; i < 2; ++i) {
      const std::vector<std::int64_t> taken(chosen.begin(),
                                            chosen.begin() + static_cast<std::ptrdiff_t>(i));
      const at::Tensor mask = competitors(logits[row], taken, options.mixer_epsilon);
      weights.push_back(at::softmax(leaf[row] + mask, 0)[chosen[i]].reshape({1}));
    }
  }
  return {leaf, experts, at::cat(weights).view({logits.size(0), 2})};
}

void expect_routing(const OperatorCase& on, const Routing& got, const Reference& want,
                    const RoutingOptions& options) {
  EXPECT_TRUE(got.experts.to(at::kCPU, at::kLong).equal(want.experts));
  expect_close(got.weights, want.weights.detach(), 1e-5, "weights");
  OperatorCase numbers = on;
  numbers.dtype = at::kFloat;
  const at::Tensor grad = random_tensor(numbers, want.weights.sizes(), "d weights");
  poison_free_memory(on);
  const at::Tensor got_grad = routing_backward(grad, {}, got, want.logits.size(1), options);
  const auto grads = torch::autograd::grad({want.weights}, {want.logits}, {wide_copy(grad)});
  expect_close(got_grad, grads[0], 2e-5, "d z");
}

at::Tensor logits_of(const at::Tensor& x, const Parameter& router) {
  return at::matmul(wide_copy(x), wide_copy(router.value).t());
}

void expect_sigmoid(const OperatorCase& on, std::int64_t num_experts,
                    const RoutingOptions& options) {
  SCOPED_TRACE(std::to_string(num_experts) + " experts, " + std::to_string(options.num_groups) +
               " groups");
  const at::Tensor x = random_tensor(on, {37, 12}, "x");
  const Parameter router = random_parameter(on, {num_experts, 12}, "router");
  OperatorCase numbers = on;
  numbers.dtype = at::kFloat;
  const Parameter bias = random_parameter(numbers, {num_experts}, "choice bias");
  poison_free_memory(on);
  const Routing routing = route(x, {router, nullptr, &bias}, options, {});
  expect_routing(on, routing,
                 sigmoid_reference(logits_of(x, router), wide_copy(bias.value), options), options);
}

TEST_P(RouterKinds, ASigmoidRouterIsItsFormula) {
  for (const bool normalize : {false, true}) {
    RoutingOptions options{.normalize = normalize, .kind = RouterKind::kSigmoid};
    options.weight_multiplier = 1.7;
    options.experts_per_row = 3;
    expect_sigmoid(GetParam(), 7, options);
    options.experts_per_row = 40;
    expect_sigmoid(GetParam(), 70, options);
    options.experts_per_row = 6;
    options.num_groups = 5;
    options.groups_per_row = 2;
    expect_sigmoid(GetParam(), 65, options);
    options.experts_per_row = 4;
    options.num_groups = 33;
    options.groups_per_row = 2;  // all experts of two groups
    expect_sigmoid(GetParam(), 66, options);
    options.num_groups = options.groups_per_row = 3;
    expect_sigmoid(GetParam(), 9, options);
  }
}

TEST_P(RouterKinds, ASigmoidRouterAddsItsEpsilonToTheSum) {
  RoutingOptions options{.normalize = true, .kind = RouterKind::kSigmoid};
  options.experts_per_row = 2;
  options.sum_epsilon = 0.5;
  expect_sigmoid(GetParam(), 7, options);
}

TEST_P(RouterKinds, TheBiasOfAChoiceDoesNotChangeTheWeights) {
  const OperatorCase& on = GetParam();
  OperatorCase numbers = on;
  numbers.dtype = at::kFloat;
  const at::Tensor x = random_tensor(on, {33, 12}, "x");
  const Parameter router = random_parameter(on, {5, 12}, "router");
  Parameter bias = random_parameter(numbers, {5}, "bias");
  bias.value.copy_(int_tensor(on, {0, 9, 0, 0, 8}).to(at::kFloat));
  const RoutingOptions options{.experts_per_row = 2, .kind = RouterKind::kSigmoid};
  const Routing routing = route(x, {router, nullptr, &bias}, options, {});
  EXPECT_TRUE((routing.experts.select(1, 0) == 1).all().item<bool>());
  EXPECT_TRUE((routing.experts.select(1, 1) == 4).all().item<bool>());
  const at::Tensor scores = at::sigmoid(logits_of(x, router));
  expect_close(routing.weights.select(1, 0), scores.select(1, 1), 1e-5, "first weight");
  expect_close(routing.weights.select(1, 1), scores.select(1, 4), 1e-5, "second weight");
}

TEST_P(RouterKinds, OfEqualScoresTheLowestExpertsOfTheLowestGroupsAreChosen) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {40, 8}, "x");
  const Parameter router = random_parameter(on, {12, 8}, "router");
  router.value.copy_(router.value[0].expand({12, 8}).clone());  // all equal
  RoutingOptions options{.experts_per_row = 5, .kind = RouterKind::kSigmoid};
  options.num_groups = 4;
  options.groups_per_row = 2;
  const Routing by_groups = route(x, {router}, options, {});
  for (std::int64_t s = 0; s < 5; ++s) {
    EXPECT_TRUE((by_groups.experts.select(1, s) == s).all().item<bool>()) << s;
  }
  const RoutingOptions mixer{.experts_per_row = 2, .kind = RouterKind::kSparseMixer};
  const Routing mixed = route(x, {router}, mixer, {});
  EXPECT_TRUE((mixed.experts.select(1, 0) == 0).all().item<bool>());
  EXPECT_TRUE((mixed.experts.select(1, 1) == 1).all().item<bool>());
  expect_close(mixed.weights.select(1, 0), at::full({40}, 1.0 / 12), 1e-6, "of 12 that compete");
  expect_close(mixed.weights.select(1, 1), at::full({40}, 1.0 / 11), 1e-6, "of 11 that compete");
}

TEST_P(RouterKinds, ASparseMixerIsItsFormula) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t num_experts : {2, 5, 70}) {
    SCOPED_TRACE(num_experts);
    const at::Tensor x = random_tensor(on, {37, 12}, "x");
    const Parameter router = random_parameter(on, {num_experts, 12}, "router");
    for (const double epsilon : {0.01, 0.4, 3.0}) {
      const RoutingOptions options{
          .experts_per_row = 2, .kind = RouterKind::kSparseMixer, .mixer_epsilon = epsilon};
      poison_free_memory(on);
      const Routing routing = route(x, {router}, options, {});
      expect_routing(on, routing, mixer_reference(logits_of(x, router), options), options);
    }
  }
}

TEST_P(RouterKinds, ASparseMixerAddsTheGradientOfTheProbabilities) {
  const OperatorCase& on = GetParam();
  OperatorCase numbers = on;
  numbers.dtype = at::kFloat;
  const at::Tensor x = random_tensor(on, {9, 8}, "x");
  const Parameter router = random_parameter(on, {5, 8}, "router");
  RoutingOptions options{.experts_per_row = 2, .kind = RouterKind::kSparseMixer};
  options.keep_probabilities = true;
  options.mixer_epsilon = 0.5;
  const Routing routing = route(x, {router}, options, {});
  const Reference want = mixer_reference(logits_of(x, router), options);
  const at::Tensor p = at::softmax(want.logits, 1);
  expect_close(routing.probabilities, p.detach(), 1e-5, "probabilities");
  const at::Tensor grad_weights = random_tensor(numbers, {9, 2}, "d weights");
  const at::Tensor grad_p = random_tensor(numbers, {9, 5}, "d probabilities");
  const auto grads = torch::autograd::grad({want.weights, p}, {want.logits},
                                           {wide_copy(grad_weights), wide_copy(grad_p)});
  expect_close(routing_backward(grad_weights, grad_p, routing, 5, options), grads[0], 2e-5, "d z");
}

TEST_P(RouterKinds, NoRowsAreRouted) {
  const OperatorCase& on = GetParam();
  const Parameter router = random_parameter(on, {6, 8}, "router");
  for (const RouterKind kind : {RouterKind::kSigmoid, RouterKind::kSparseMixer}) {
    RoutingOptions options{.experts_per_row = 2, .kind = kind};
    options.num_groups = 3;
    options.groups_per_row = 2;
    const Routing routing = route(random_tensor(on, {0, 8}, "x"), {router}, options, {});
    EXPECT_EQ(routing.experts.sizes(), at::IntArrayRef({0, 2}));
    EXPECT_EQ(routing_backward(routing.weights, {}, routing, 6, options).sizes(),
              at::IntArrayRef({0, 6}));
  }
}

}  // namespace
}  // namespace packtrain::router_kinds_test
