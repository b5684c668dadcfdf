// Factors of the weights of experts, against the formula in float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/gather.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>

#include "models/ops/experts/expert_scale.h"
#include "tests/models/cases.h"

namespace packtrain::expert_scale_test {
namespace {

class ExpertScales : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ExpertScales, testing::ValuesIn(operator_cases()), case_name);

struct Sizes {
  std::int64_t num_rows;
  std::int64_t num_experts;
  std::int64_t per_row;
};

constexpr Sizes kSizes[] = {{0, 5, 2}, {1, 7, 3}, {37, 5, 5}, {130, 70, 1}, {130, 70, 40}};

// Weights and gradients are float32 in any model.
OperatorCase of_numbers(OperatorCase on) {
  on.dtype = at::kFloat;
  return on;
}

// Distinct experts of each row, int32 [rows, per row].
at::Tensor random_choice(const OperatorCase& on, const Sizes& sizes) {
  const at::Tensor scores =
      random_tensor(of_numbers(on), {sizes.num_rows, sizes.num_experts}, "scores");
  return scores.argsort(std::int64_t{1}).narrow(1, 0, sizes.per_row).to(at::kInt).contiguous();
}

// scale[e] for each row: float64 [rows, per row].
at::Tensor factors_of(const at::Tensor& scale, const at::Tensor& experts) {
  const at::Tensor rows = scale.unsqueeze(0).expand({experts.size(0), scale.size(0)});
  return at::gather(rows, 1, experts.to(at::kCPU, at::kLong));
}

TEST_P(ExpertScales, AreTheirFormula) {
  const OperatorCase& on = GetParam();
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(std::to_string(sizes.num_rows) + " rows, " + std::to_string(sizes.num_experts) +
                 " experts");
    const at::Tensor experts = random_choice(on, sizes);
    const at::Tensor weights =
        random_tensor(of_numbers(on), {sizes.num_rows, sizes.per_row}, "weights");
    const at::Tensor grad = random_tensor(of_numbers(on), {sizes.num_rows, sizes.per_row}, "grad");
    const Parameter scale = random_parameter(on, {sizes.num_experts}, "scale");
    const at::Tensor w = reference_leaf(weights);
    const at::Tensor s = reference_leaf(scale.value);
    const at::Tensor y = w * factors_of(s, experts);
    poison_free_memory(on);
    expect_close(scale_by_expert(weights, experts, scale), y.detach(), 1e-6, "y");
    const auto grads = torch::autograd::grad({y}, {w, s}, {wide_copy(grad)});
    expect_close(scale_by_expert_backward(grad, weights, experts, scale), grads[0], 1e-6, "dw");
    expect_close(scale.grad, grads[1], on.tolerance, "ds");
  }
}

TEST_P(ExpertScales, ExpertsWithoutRowsHaveNoGradient) {
  const OperatorCase& on = GetParam();
  const at::Tensor weights = random_tensor(of_numbers(on), {3, 1}, "weights");
  const Parameter scale = random_parameter(on, {4}, "scale");
  const at::Tensor experts = int_tensor(on, {2, 2, 0}).view({3, 1});
  scale_by_expert_backward(weights, weights, experts, scale);
  EXPECT_EQ(scale.grad[1].item<double>(), 0);
  EXPECT_EQ(scale.grad[3].item<double>(), 0);
  EXPECT_NE(scale.grad[2].item<double>(), 0);
}

TEST_P(ExpertScales, AFrozenScaleStillPassesTheGradientOn) {
  const OperatorCase& on = GetParam();
  const at::Tensor weights = random_tensor(of_numbers(on), {9, 2}, "weights");
  const at::Tensor experts = random_choice(on, {9, 5, 2});
  const Parameter trained = random_parameter(on, {5}, "scale");
  const Parameter frozen{.value = trained.value, .grad = {}};
  EXPECT_TRUE(scale_by_expert_backward(weights, weights, experts, frozen)
                  .equal(scale_by_expert_backward(weights, weights, experts, trained)));
}

}  // namespace
}  // namespace packtrain::expert_scale_test
