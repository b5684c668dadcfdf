// The inputs of the gated delta rule against their formulas in float64.
#include "models/ops/delta_gates/delta_gates.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/models/cases.h"

namespace packtrain::delta_gates_test {
namespace {

class DeltaGatesOf : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, DeltaGatesOf, testing::ValuesIn(operator_cases()), case_name);

struct Sizes {
  std::int64_t rows = 0;
  std::int64_t key_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t heads = 0;
  std::int64_t value_dim = 0;
};

// No rows, odd widths, those of published models, more rows than blocks, and many heads.
constexpr Sizes kSizes[] = {{0, 2, 4, 2, 4},       {1, 1, 3, 1, 5},     {37, 2, 10, 6, 14},
                            {5, 16, 128, 32, 128}, {2500, 3, 8, 3, 12}, {3, 1, 200, 300, 1}};

struct Case {
  Sizes sizes;
  double multiplier = 1;
};

at::Tensor unit(const at::Tensor& heads) {
  return heads * at::rsqrt((heads * heads).sum(at::IntArrayRef{2}, true) + 1e-6);
}

// q', k', v, g and beta in float64.
std::vector<at::Tensor> formula(const at::Tensor& mixed, const at::Tensor& ba, const at::Tensor& a,
                                const at::Tensor& dt, const Case& test) {
  const Sizes& s = test.sizes;
  const std::int64_t width = s.key_heads * s.key_dim;
  const auto heads = [&](std::int64_t part) {
    return mixed.narrow(1, part * width, width).view({s.rows, s.key_heads, s.key_dim});
  };
  const at::Tensor v =
      mixed.narrow(1, 2 * width, s.heads * s.value_dim).view({s.rows, s.heads, s.value_dim});
  return {unit(heads(0)), unit(heads(1)), v,
          -at::exp(a) * at::softplus(ba.narrow(1, s.heads, s.heads) + dt),
          at::sigmoid(ba.narrow(1, 0, s.heads)) * test.multiplier};
}

void expect_formula(const OperatorCase& on, const Case& test) {
  const Sizes& s = test.sizes;
  const std::int64_t keys = 2 * s.key_heads * s.key_dim;
  const at::Tensor mixed = random_tensor(on, {s.rows, keys + s.heads * s.value_dim}, "mixed");
  const at::Tensor ba = random_tensor(on, {s.rows, 2 * s.heads}, "ba") * 4;
  const OperatorCase wide{on.device, at::kFloat, on.tolerance};
  const Parameter a = random_parameter(wide, {s.heads}, "a");
  const Parameter dt = random_parameter(wide, {s.heads}, "dt");
  const DeltaGates gates{a, dt, s.key_heads, s.key_dim, test.multiplier};
  const std::vector<at::Tensor> leaves = {reference_leaf(mixed), reference_leaf(ba),
                                          reference_leaf(a.value), reference_leaf(dt.value)};
  const std::vector<at::Tensor> want = formula(leaves[0], leaves[1], leaves[2], leaves[3], test);

  poison_free_memory(on);
  const DeltaRuleInputs got = delta_gates_forward(mixed, ba, gates);
  const std::vector<at::Tensor> outputs = {got.q, got.k, got.v, got.g, got.beta};
  std::vector<at::Tensor> grads;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const OperatorCase& kind = i < 3 ? on : wide;
    EXPECT_EQ(outputs[i].scalar_type(), kind.dtype);
    expect_close(outputs[i], want[i], kind.tolerance, "output " + std::to_string(i));
    grads.push_back(random_tensor(kind, outputs[i].sizes(), "grad " + std::to_string(i)));
  }
  std::vector<at::Tensor> wide_grads;
  for (const at::Tensor& grad : grads) wide_grads.push_back(wide_copy(grad));
  const auto wanted = torch::autograd::grad(want, leaves, wide_grads);
  poison_free_memory(on);
  const DeltaGatesGradients back =
      delta_gates_backward({grads[0], grads[1], grads[2], grads[3], grads[4]}, mixed, ba, gates);
  expect_close(back.mixed, wanted[0], on.tolerance, "d mixed");
  expect_close(back.ba, wanted[1], on.tolerance, "d ba");
  expect_close(a.grad, wanted[2], on.tolerance, "d A");
  expect_close(dt.grad, wanted[3], on.tolerance, "d dt");
}

TEST_P(DeltaGatesOf, RowsMatchTheirFormulas) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(std::to_string(sizes.rows) + " rows of " + std::to_string(sizes.heads));
    expect_formula(GetParam(), {sizes, 1.0});
    expect_formula(GetParam(), {sizes, 2.0});
  }
}

TEST_P(DeltaGatesOf, RowsThatDoNotFitAreRefused) {
  const OperatorCase& on = GetParam();
  const Parameter a = random_parameter(on, {3}, "a");
  const Parameter dt = random_parameter(on, {3}, "dt");
  const DeltaGates gates{a, dt, 2, 4, 1.0};
  const at::Tensor mixed = random_tensor(on, {5, 22}, "mixed");
  EXPECT_NO_THROW(delta_gates_forward(mixed, random_tensor(on, {5, 6}, "ba"), gates));
  EXPECT_THROW(delta_gates_forward(mixed, random_tensor(on, {4, 6}, "ba"), gates), Error);
  EXPECT_THROW(delta_gates_forward(mixed, random_tensor(on, {5, 8}, "ba"), gates), Error);
  EXPECT_THROW(delta_gates_forward(mixed.narrow(1, 0, 21), random_tensor(on, {5, 6}, "ba"), gates),
               Error);
}

}  // namespace
}  // namespace packtrain::delta_gates_test
