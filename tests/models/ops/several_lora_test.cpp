// Linear layers with low-rank updates of several adapters, each of rows of its own, against
// float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/ops/linear/lora.h"
#include "models/ops/linear/lora_linear.h"
#include "tests/models/cases.h"

namespace packtrain::several_lora_test {
namespace {

class SeveralLora : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, SeveralLora, testing::ValuesIn(operator_cases()), case_name);

struct Shape {
  std::int64_t in;
  std::int64_t out;
  LoraModules modules;
  std::vector<std::int32_t> begins;  // of the adapters, and the end of the last
  std::int64_t rows;

  std::string text() const { return std::to_string(rows) + " rows"; }
};

LoraModule module(const char* name, std::int64_t begin, std::int64_t num_rows, std::int64_t rank,
                  double scale, int adapter) {
  return {name, begin, num_rows, rank, scale, adapter};
}

// Kernels have tiles of 128 rows, two of them in a cluster. Borders of adapters are at these and
// between them. Adapters have other modules and ranks, no rows, or no modules. Pads are of none.
std::vector<Shape> shapes() {
  const LoraModules few = {module("a", 0, 16, 4, 0.5, 0), module("b", 0, 8, 2, 2.0, 1),
                           module("c", 8, 8, 3, 1.0, 1)};
  const LoraModules many = {
      module("q", 0, 512, 16, 2.0, 0),   module("k", 512, 128, 16, 2.0, 0),
      module("v", 640, 128, 16, 2.0, 0), module("q", 0, 512, 8, 0.5, 1),
      module("v", 640, 128, 64, 1.5, 3), module("q", 0, 512, 24, 2.0, 4),
      module("k", 512, 128, 8, 0.25, 4),
  };
  return {
      {8, 16, few, {0, 3, 3}, 5},
      {8, 16, few, {0, 7, 12}, 12},
      {72, 768, many, {0, 256, 500, 700, 700, 1290}, 1300},
      {200, 768, many, {0, 0, 1, 513, 1027, 1100}, 1152},
      {264, 768, many, {0, 2048, 2048, 2048, 2048, 2048}, 2050},
  };
}

struct Case {
  const Shape& shape;
  at::Tensor x;
  at::Tensor grad_output;
  at::Tensor residual;
  at::Tensor s;  // zeros in rows of other adapters
  Parameter weight;
  Parameter a;
  std::vector<Parameter> b;
  AdapterRows rows;

  Case(const OperatorCase& on, const Shape& of)
      : shape(of),
        x(random_tensor(on, {of.rows, of.in}, "x")),
        grad_output(random_tensor(on, {of.rows, of.out}, "grad_output")),
        residual(random_tensor(on, {of.rows, of.out}, "residual")),
        s(random_tensor(on, {of.rows, total_rank(of.modules)}, "s")),
        weight(random_parameter(on, {of.out, of.in}, "weight")),
        a(random_parameter(on, {total_rank(of.modules), of.in}, "a")),
        rows{int_tensor(on, of.begins)} {
    LoraModules unscaled = of.modules;
    for (LoraModule& each : unscaled) each.scale = 1;
    scale_modules(s, unscaled, rows);
    for (const LoraModule& each : of.modules) {
      b.push_back(random_parameter(on, {each.num_rows, each.rank}, each.name));
    }
  }

  std::vector<const Parameter*> b_of() const { return pointers_to(b); }
  // Calls `use` with each module's number, its own rows and columns of a [T, R] tensor, and those
  // of a [T, N] tensor.
  template <typename Use>
  void for_each_module(const at::Tensor& low, const at::Tensor& wide, const Use& use) const {
    std::int64_t column = 0;
    for (std::size_t m = 0; m < b.size(); ++m) {
      const LoraModule& each = shape.modules[m];
      const auto adapter = static_cast<std::size_t>(each.adapter);
      const std::int64_t begin = shape.begins[adapter];
      const std::int64_t numel = shape.begins[adapter + 1] - begin;
      use(m, low.narrow(0, begin, numel).narrow(1, column, each.rank),
          wide.narrow(0, begin, numel).narrow(1, each.begin, each.num_rows));
      column += each.rank;
    }
  }
};

TEST_P(SeveralLora, ScalingKeepsTheRowsOfEachModulesAdapterAlone) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const at::Tensor s = random_tensor(on, c.s.sizes(), "values");
    const at::Tensor want = at::zeros(s.sizes(), at::kDouble);
    std::vector<at::Tensor> own;
    c.for_each_module(wide_copy(s), c.residual,
                      [&](std::size_t m, const at::Tensor& from, const at::Tensor&) {
                        own.push_back(from * shape.modules[m].scale);
                      });
    c.for_each_module(
        want, c.residual,
        [&](std::size_t m, const at::Tensor& to, const at::Tensor&) { to.copy_(own[m]); });
    scale_modules(s, shape.modules, c.rows);
    expect_close(s, want, on.tolerance, shape.text());
  }
}

TEST_P(SeveralLora, AddsToEachRowTheUpdateOfItsAdapter) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const at::Tensor want =
        at::matmul(wide_copy(c.x), wide_copy(c.weight.value).t()) + wide_copy(c.residual);
    c.for_each_module(wide_copy(c.s), want,
                      [&](std::size_t m, const at::Tensor& s, const at::Tensor& y) {
                        y.add_(at::matmul(s, wide_copy(c.b[m].value).t()));
                      });
    poison_free_memory(on);
    expect_close(lora_linear_forward(c.x, c.weight, nullptr, c.s, shape.modules, c.b_of(), {},
                                     c.residual, c.rows),
                 want, on.tolerance, shape.text());
  }
}

TEST_P(SeveralLora, GradientOfTheInputHasThatOfEachRowsAdapter) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const at::Tensor want = at::matmul(wide_copy(c.grad_output), wide_copy(c.weight.value)) +
                            at::matmul(wide_copy(c.s), wide_copy(c.a.value)) + wide_copy(c.x);
    poison_free_memory(on);
    expect_close(lora_linear_backward_input(c.grad_output, c.weight, c.s, c.a, shape.modules, {},
                                            {}, c.x, c.rows),
                 want, on.tolerance, shape.text());
  }
}

TEST_P(SeveralLora, GradientsOfFactorsAreSumsOverTheRowsOfTheirAdapter) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    Case c(on, shape);
    const at::Tensor want = at::zeros(c.s.sizes(), at::kDouble);
    const at::Tensor g = wide_copy(c.grad_output);
    c.for_each_module(want, g, [&](std::size_t m, const at::Tensor& to, const at::Tensor& rows) {
      to.copy_(at::matmul(rows, wide_copy(c.b[m].value)) * shape.modules[m].scale);
    });
    for (const bool accumulate : {false, true}) {
      for (Parameter& parameter : c.b) parameter.accumulate = accumulate;
      poison_free_memory(on);
      expect_close(
          lora_linear_backward_low_rank(c.grad_output, c.s, shape.modules, c.b_of(), {}, c.rows),
          want, on.tolerance, shape.text() + ", d(x A^T)");
      c.for_each_module(
          wide_copy(c.s), g, [&](std::size_t m, const at::Tensor& s, const at::Tensor& rows) {
            expect_close(c.b[m].grad, at::matmul(rows.t(), s) * (accumulate ? 2 : 1), on.tolerance,
                         shape.text() + ", dB of module " + std::to_string(m));
          });
    }
  }
}

TEST_P(SeveralLora, RowsThatAreNotFiniteReachNoOtherGradient) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const std::int64_t begin = shape.begins[0];
    const std::int64_t end = shape.begins[1];
    if (begin == end) continue;
    c.grad_output.narrow(0, begin, end - begin).fill_(std::nan(""));
    c.s.narrow(0, begin, end - begin).narrow(1, 0, shape.modules[0].rank).fill_(std::nan(""));
    lora_linear_backward_low_rank(c.grad_output, c.s, shape.modules, c.b_of(), {}, c.rows);
    for (std::size_t m = 0; m < c.b.size(); ++m) {
      const at::Tensor finite = wide_copy(c.b[m].grad).isfinite();
      const bool is_own = shape.modules[m].adapter == 0;
      EXPECT_EQ(finite.any().item<bool>(), !is_own) << shape.text() << ", module " << m;
      EXPECT_EQ(finite.all().item<bool>(), !is_own) << shape.text() << ", module " << m;
    }
  }
}

TEST_P(SeveralLora, ValuesThatAreNotFiniteStayInTheirRows) {
  const OperatorCase& on = GetParam();
  const Shape shape = shapes()[1];
  const Case c(on, shape);
  c.s.narrow(0, 0, 7).narrow(1, 0, 4).fill_(std::nan(""));
  const at::Tensor y =
      lora_linear_forward(c.x, c.weight, nullptr, c.s, shape.modules, c.b_of(), {}, {}, c.rows);
  EXPECT_FALSE(wide_copy(y.narrow(0, 0, 7)).isfinite().any().item<bool>());
  EXPECT_TRUE(wide_copy(y.narrow(0, 7, 5)).isfinite().all().item<bool>());
}

TEST_P(SeveralLora, TwoRunsHaveEqualBits) {
  const OperatorCase& on = GetParam();
  const Shape shape = shapes()[2];
  const Case c(on, shape);
  const auto gradients = [&] {
    const at::Tensor low =
        lora_linear_backward_low_rank(c.grad_output, c.s, shape.modules, c.b_of(), {}, c.rows);
    return std::pair(low, c.b[0].grad.clone());
  };
  const auto first = gradients();
  const auto second = gradients();
  EXPECT_TRUE(first.first.equal(second.first));
  EXPECT_TRUE(first.second.equal(second.second));
}

}  // namespace
}  // namespace packtrain::several_lora_test
