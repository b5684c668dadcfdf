// Activations against their formulas in float64, per device and dtype.
#include "models/ops/activation/activation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>

#include "tests/models/cases.h"

namespace packtrain::activation_test {
namespace {

class ActivationOf : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ActivationOf, testing::ValuesIn(operator_cases()), case_name);

constexpr ActivationKind kKinds[] = {ActivationKind::kSilu, ActivationKind::kGeluTanh,
                                     ActivationKind::kGeluErf, ActivationKind::kClampedSwish,
                                     ActivationKind::kSquaredRelu};
constexpr std::int64_t kShapes[][2] = {{0, 8},   {1, 8},     {1, 1},     {7, 3},
                                       {29, 24}, {130, 100}, {64, 2048}, {3, 14336}};

at::Tensor formula(const at::Tensor& z, ActivationKind kind) {
  if (kind == ActivationKind::kSilu) return z * at::sigmoid(z);
  if (kind == ActivationKind::kSquaredRelu) return z.clamp_min(0) * z.clamp_min(0);
  if (kind == ActivationKind::kClampedSwish) {
    const at::Tensor clamped = at::clamp_max(z, 7);
    return clamped * at::sigmoid(clamped * 1.702);
  }
  if (kind == ActivationKind::kGeluErf) return z * 0.5 * (at::erf(z / std::sqrt(2.0)) + 1);
  const double scale = std::sqrt(2.0 / std::acos(-1.0));
  return z * 0.5 * (at::tanh((z + z * z * z * 0.044715) * scale) + 1);
}

at::Tensor formula(const at::Tensor& x, const Activation& activation) {
  if (!activation.gated) return formula(x, activation.kind);
  const std::int64_t width = x.size(1) / 2;
  at::Tensor up = x.narrow(1, width, width);
  if (activation.kind == ActivationKind::kClampedSwish) up = at::clamp(up, -7, 7) + 1;
  return formula(x.narrow(1, 0, width), activation.kind) * up;
}

void expect_matches_formula(const OperatorCase& on, const Activation& activation, std::int64_t rows,
                            std::int64_t inner) {
  const std::int64_t width = activation.gated ? 2 * inner : inner;
  const at::Tensor x = random_tensor(on, {rows, width}, "x") * 4;
  const at::Tensor grad_output = random_tensor(on, {rows, inner}, "grad_output");
  const at::Tensor leaf = reference_leaf(x);
  const at::Tensor want = formula(leaf, activation);
  const auto grads = torch::autograd::grad({want}, {leaf}, {wide_copy(grad_output)});

  poison_free_memory(on);
  const at::Tensor y = activation_forward(x, activation);
  EXPECT_EQ(y.scalar_type(), on.dtype);
  expect_close(y, want, on.tolerance, "y");
  const at::Tensor dx = activation_backward(grad_output, x, activation);
  expect_close(dx, grads[0], on.tolerance, "d x");
  const at::Tensor remade = at::full_like(y, std::nan(""));
  expect_close(activation_backward(grad_output, x, activation, remade), grads[0], on.tolerance,
               "d x, remaking");
  expect_close(remade, y, 0, "y, made again");
  const at::Tensor dx_for_x = x.clone();
  const at::Tensor y_for_grad = grad_output.clone();
  activation_backward_in_place(y_for_grad, dx_for_x, activation, /*recomputes_output=*/true);
  expect_close(dx_for_x, dx, 0, "d x, in place");
  expect_close(y_for_grad, y, 0, "y, in place");
}

TEST_P(ActivationOf, MatchesItsFormula) {
  for (const ActivationKind kind : kKinds) {
    for (const bool gated : {true, false}) {
      for (const auto& [rows, inner] : kShapes) {
        SCOPED_TRACE("kind " + std::to_string(static_cast<int>(kind)) + (gated ? " gated " : " ") +
                     std::to_string(rows) + " x " + std::to_string(inner));
        expect_matches_formula(GetParam(), {kind, gated}, rows, inner);
      }
    }
  }
}

TEST_P(ActivationOf, FarFromZeroStaysFinite) {
  const OperatorCase& on = GetParam();
  for (const ActivationKind kind : kKinds) {
    if (kind == ActivationKind::kSquaredRelu) continue;  // grows without bound
    const at::Tensor x = at::full_like(random_tensor(on, {2, 16}, "x"), 300.0);
    x.select(0, 0).fill_(-300.0);
    const Activation plain{kind, /*gated=*/false};
    const bool clamped = kind == ActivationKind::kClampedSwish;
    expect_close(activation_forward(x, plain), clamped ? x.clamp(0, 7) : x.clamp_min(0),
                 clamped ? 1e-5 : 0, "y");
    expect_close(activation_backward(x, x, plain), clamped ? x * 0 : x.clamp_min(0), 0, "d x");
  }
}

}  // namespace
}  // namespace packtrain::activation_test
