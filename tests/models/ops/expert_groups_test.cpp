// A softmax router whose rows choose groups of experts first, and whose weights have a factor.
#include "models/ops/experts/expert_groups.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <string>

#include "models/ops/experts/routing.h"
#include "tests/models/cases.h"

namespace packtrain::expert_groups_test {
namespace {

class ExpertGroups : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ExpertGroups, testing::ValuesIn(operator_cases()), case_name);

OperatorCase in_float32(OperatorCase on) {
  on.dtype = at::kFloat;
  return on;
}

// The groups of the row's largest scores, one after another, until there are enough.
std::set<std::int64_t> groups_of(const at::Tensor& scores, const RoutingOptions& options) {
  const std::int64_t per_group = scores.size(0) / options.num_groups;
  const at::Tensor order = scores.argsort(/*dim=*/0, /*descending=*/true);
  std::set<std::int64_t> groups;
  for (std::int64_t i = 0; std::ssize(groups) < options.groups_per_row; ++i) {
    groups.insert(order[i].item<std::int64_t>() / per_group);
  }
  return groups;
}

// The row's experts of these groups, largest score first.
at::Tensor experts_of(const at::Tensor& scores, const RoutingOptions& options) {
  const std::set<std::int64_t> groups = groups_of(scores, options);
  const std::int64_t per_group = scores.size(0) / options.num_groups;
  const at::Tensor order = scores.argsort(/*dim=*/0, /*descending=*/true);
  at::Tensor experts = at::arange(options.experts_per_row, at::kLong);
  std::int64_t found = 0;
  for (std::int64_t i = 0; found < options.experts_per_row; ++i) {
    const auto expert = order[i].item<std::int64_t>();
    if (groups.contains(expert / per_group)) experts[found++] = expert;
  }
  return experts;
}

void expect_softmax_formula(const OperatorCase& on, std::int64_t num_experts,
                            const RoutingOptions& options) {
  SCOPED_TRACE(std::to_string(num_experts) + " experts");
  const at::Tensor x = random_tensor(on, {37, 12}, "x");
  const Parameter router = random_parameter(on, {num_experts, 12}, "router");
  const at::Tensor leaf = reference_leaf(at::matmul(wide_copy(x), wide_copy(router.value).t()));
  const at::Tensor p = at::softmax(leaf, 1);
  const Routing routing = route(x, {router}, options, {});
  const at::Tensor experts = routing.experts.to(at::kCPU, at::kLong);
  for (std::int64_t row = 0; row < 37; ++row) {
    EXPECT_TRUE(experts[row].equal(experts_of(leaf.detach()[row], options))) << row;
  }
  at::Tensor weights = at::gather(p, 1, experts);
  if (options.normalize) weights = weights / weights.sum(1, true);
  weights = weights * options.weight_multiplier;
  expect_close(routing.weights, weights.detach(), 1e-5, "weights");
  const at::Tensor grad = random_tensor(in_float32(on), weights.sizes(), "d weights");
  const at::Tensor grad_p = random_tensor(in_float32(on), p.sizes(), "d probabilities");
  const bool has_grad_p = options.keep_probabilities;
  const auto grads =
      has_grad_p ? torch::autograd::grad({weights, p}, {leaf}, {wide_copy(grad), wide_copy(grad_p)})
                 : torch::autograd::grad({weights}, {leaf}, {wide_copy(grad)});
  poison_free_memory(on);
  expect_close(
      routing_backward(grad, has_grad_p ? grad_p : at::Tensor(), routing, num_experts, options),
      grads[0], 2e-5, "d z");
}

TEST_P(ExpertGroups, ASoftmaxRouterWithGroupsAndAFactorIsItsFormula) {
  for (const bool normalize : {false, true}) {
    for (const bool keep : {false, true}) {
      RoutingOptions options{.normalize = normalize, .keep_probabilities = keep};
      options.weight_multiplier = 16.0;
      options.experts_per_row = 3;
      expect_softmax_formula(GetParam(), 7, options);
      options.num_groups = 5;
      options.groups_per_row = 2;
      expect_softmax_formula(GetParam(), 65, options);
      options.num_groups = 5;
      options.groups_per_row = 4;  // groups of one expert
      expect_softmax_formula(GetParam(), 5, options);
    }
  }
}

TEST_P(ExpertGroups, OfEqualScoresTheLowestGroupsAreChosen) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {40, 8}, "x");
  const Parameter router = random_parameter(on, {12, 8}, "router");
  router.value.copy_(router.value[0].expand({12, 8}).clone());
  RoutingOptions options{.experts_per_row = 5};
  options.num_groups = 4;
  options.groups_per_row = 2;
  const Routing routing = route(x, {router}, options, {});
  for (std::int64_t s = 0; s < 5; ++s) {
    EXPECT_TRUE((routing.experts.select(1, s) == s).all().item<bool>()) << s;
  }
}

TEST_P(ExpertGroups, NoRowsChooseNoGroups) {
  const OperatorCase& on = GetParam();
  RoutingOptions options{.experts_per_row = 2};
  options.num_groups = 3;
  options.groups_per_row = 2;
  const at::Tensor none = random_tensor(in_float32(on), {0, 6}, "scores");
  EXPECT_EQ(scores_in_groups(none, options, 1).sizes(), at::IntArrayRef({0, 6}));
}

}  // namespace
}  // namespace packtrain::expert_groups_test
