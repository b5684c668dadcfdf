// A softmax router with a bias of the choice. Its choices, weights and gradients are those of a
// formula in float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "models/ops/experts/routing.h"
#include "tests/models/cases.h"

namespace packtrain::biased_router_test {
namespace {

class BiasedRouter : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, BiasedRouter, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kRows = 37;
constexpr std::int64_t kWidth = 12;

OperatorCase in_float32(OperatorCase on) {
  on.dtype = at::kFloat;
  return on;
}

struct Router {
  Router(const OperatorCase& on, std::int64_t num_experts)
      : x(random_tensor(on, {kRows, kWidth}, "x")),
        weight(random_parameter(on, {num_experts, kWidth}, "router")),
        bias(random_parameter(in_float32(on), {num_experts}, "choice bias")) {}

  Routing route(const RoutingOptions& options) const {
    return packtrain::route(x, {weight, nullptr, &bias}, options, {});
  }
  at::Tensor logits() const {
    return at::matmul(wide_copy(x), wide_copy(weight.value).t()).detach();
  }

  at::Tensor x;
  Parameter weight;
  Parameter bias;
};

// Leaves and results of the formula.
struct Formula {
  Formula(const Router& router, const RoutingOptions& options)
      : z(reference_leaf(router.logits())), p(at::softmax(z, 1)) {
    const at::Tensor scores = p.detach() + wide_copy(router.bias.value);
    experts = at::argsort(scores, /*stable=*/true, /*dim=*/1, /*descending=*/true)
                  .narrow(1, 0, options.experts_per_row);
    weights = at::gather(p, 1, experts);
    if (options.normalize) weights = weights / weights.sum(1, true).clamp_min(options.sum_epsilon);
    weights = weights * options.weight_multiplier;
  }

  at::Tensor z;
  at::Tensor p;
  at::Tensor experts;
  at::Tensor weights;
};

void expect_formula(const OperatorCase& on, std::int64_t num_experts,
                    const RoutingOptions& options) {
  SCOPED_TRACE(std::to_string(num_experts) + " experts");
  const Router router(on, num_experts);
  poison_free_memory(on);
  const Routing got = router.route(options);
  const Formula want(router, options);
  EXPECT_TRUE(got.experts.to(at::kCPU, at::kLong).equal(want.experts));
  expect_close(got.weights, want.weights.detach(), 1e-5, "weights");
  const at::Tensor grad = random_tensor(in_float32(on), want.weights.sizes(), "d weights");
  const at::Tensor of_p = random_tensor(in_float32(on), want.p.sizes(), "d probabilities");
  poison_free_memory(on);
  const at::Tensor alone = routing_backward(grad, {}, got, num_experts, options);
  const at::Tensor both = routing_backward(grad, of_p, got, num_experts, options);
  const auto want_alone = torch::autograd::grad({want.weights}, {want.z}, {wide_copy(grad)},
                                                /*retain_graph=*/true);
  expect_close(alone, want_alone[0], 2e-5, "d z");
  const auto want_both =
      torch::autograd::grad({want.weights, want.p}, {want.z}, {wide_copy(grad), wide_copy(of_p)});
  expect_close(both, want_both[0], 2e-5, "d z with that of the probabilities");
}

TEST_P(BiasedRouter, IsItsFormula) {
  RoutingOptions options{.choice_bias = true};
  options.weight_multiplier = 1.7;
  for (const bool normalize : {false, true}) {
    options.normalize = normalize;
    options.experts_per_row = 3;
    expect_formula(GetParam(), 7, options);
    options.experts_per_row = 40;
    expect_formula(GetParam(), 70, options);
  }
}

TEST_P(BiasedRouter, DividesBySumsAboveTheLeastOneAlone) {
  RoutingOptions options{.experts_per_row = 3, .normalize = true, .choice_bias = true};
  options.sum_epsilon = 0.5;  // some sums are below
  expect_formula(GetParam(), 7, options);
}

TEST_P(BiasedRouter, RoutesNoRows) {
  const RoutingOptions options{.experts_per_row = 2, .choice_bias = true};
  const Router router(GetParam(), 6);
  const Routing routing = route(random_tensor(GetParam(), {0, kWidth}, "x"),
                                {router.weight, nullptr, &router.bias}, options, {});
  EXPECT_EQ(routing.experts.sizes(), at::IntArrayRef({0, 2}));
  EXPECT_EQ(routing_backward(routing.weights, {}, routing, 6, options).sizes(),
            at::IntArrayRef({0, 6}));
}

}  // namespace
}  // namespace packtrain::biased_router_test
