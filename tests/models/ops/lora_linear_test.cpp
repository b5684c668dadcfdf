// Linear layers with low-rank updates against float64, forward and backward, per device and dtype.
#include "models/ops/linear/lora_linear.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <string>
#include <vector>

#include "framework/core/hash.h"
#include "models/ops/dropout/dropout.h"
#include "tests/models/cases.h"

namespace packtrain::lora_linear_test {
namespace {

class LoraLinear : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, LoraLinear, testing::ValuesIn(operator_cases()), case_name);

struct Shape {
  std::int64_t rows;
  std::int64_t in;
  std::int64_t out;
  LoraModules modules;

  std::string text() const {
    return std::to_string(rows) + " rows, " + std::to_string(in) + " -> " + std::to_string(out) +
           ", " + std::to_string(modules.size()) + " modules";
  }
};

// Kernels have tiles of 128 rows and 256 columns, and 64 elements of depth. Borders of modules are
// at tiles and between them, rows have no module, ranks fill a stage or several. The first shapes
// are for the plain path on each device.
std::vector<Shape> shapes() {
  return {
      {0, 8, 16, {{"a", 0, 16, 8, 2.0}}},
      {7, 5, 3, {{"a", 0, 3, 2, 2.0}}},
      {130, 64, 24, {{"a", 0, 8, 4, 1.0}, {"b", 8, 16, 4, 0.5}}},
      {1100, 64, 768, {{"q", 0, 512, 16, 2.0}, {"k", 512, 128, 16, 2.0}, {"v", 640, 128, 16, 2.0}}},
      {1061, 200, 520, {{"a", 0, 264, 8, 0.5}, {"b", 264, 136, 24, 1.5}}},
      {1024, 72, 400, {{"a", 120, 200, 64, 1.0}}},
      {2050, 1304, 264, {{"a", 0, 264, 32, 1.5}}},
      {1030, 136, 264, {{"a", 0, 264, 72, 0.25}}},
  };
}

struct Case {
  const Shape& shape;
  at::Tensor x;
  at::Tensor s;
  at::Tensor grad_output;
  at::Tensor residual;
  at::Tensor sum;
  Parameter weight;
  Parameter bias;
  Parameter a;
  std::vector<Parameter> b;

  Case(const OperatorCase& on, const Shape& of)
      : shape(of),
        x(random_tensor(on, {of.rows, of.in}, "x")),
        s(random_tensor(on, {of.rows, total_rank(of.modules)}, "s")),
        grad_output(random_tensor(on, {of.rows, of.out}, "grad_output")),
        residual(random_tensor(on, {of.rows, of.out}, "residual")),
        sum(random_tensor(on, {of.rows, of.in}, "sum")),
        weight(random_parameter(on, {of.out, of.in}, "weight")),
        bias(random_parameter(on, {of.out}, "bias")),
        a(random_parameter(on, {total_rank(of.modules), of.in}, "a")) {
    for (const LoraModule& module : of.modules) {
      b.push_back(random_parameter(on, {module.num_rows, module.rank}, module.name));
    }
  }

  std::vector<const Parameter*> b_of() const { return pointers_to(b); }
  // Calls `use` with each module's number, its columns of a [T, R] tensor and of a [T, N] tensor.
  template <typename Use>
  void for_each_module(const at::Tensor& low, const at::Tensor& wide, const Use& use) const {
    std::int64_t column = 0;
    for (std::size_t m = 0; m < b.size(); ++m) {
      const LoraModule& module = shape.modules[m];
      use(m, low.narrow(1, column, module.rank), wide.narrow(1, module.begin, module.num_rows));
      column += module.rank;
    }
  }
};

at::Tensor update(const Case& c) {
  const at::Tensor all = at::zeros({c.shape.rows, c.shape.out}, at::kDouble);
  c.for_each_module(wide_copy(c.s), all,
                    [&](std::size_t m, const at::Tensor& s, const at::Tensor& y) {
                      y.copy_(at::matmul(s, wide_copy(c.b[m].value).t()));
                    });
  return all;
}

TEST_P(LoraLinear, AddsTheUpdatesOfItsModulesBiasAndResidual) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const at::Tensor product =
        at::matmul(wide_copy(c.x), wide_copy(c.weight.value).t()) + update(c);
    poison_free_memory(on);
    expect_close(lora_linear_forward(c.x, c.weight, nullptr, c.s, shape.modules, c.b_of(), {}),
                 product, on.tolerance, shape.text());
    expect_close(
        lora_linear_forward(c.x, c.weight, &c.bias, c.s, shape.modules, c.b_of(), {}, c.residual),
        product + wide_copy(c.bias.value) + wide_copy(c.residual), on.tolerance,
        shape.text() + ", bias and residual");
  }
}

// 0 or 1 / (1 - 0.25), float64 on the CPU.
at::Tensor mask_of(const OperatorCase& on, const LoraModule& module, const at::Tensor& seeds,
                   std::int64_t width) {
  const std::uint64_t key = digest_bytes(std::as_bytes(std::span(module.name))).low;
  const at::Tensor ones =
      at::ones({seeds.size(0), width}, at::TensorOptions(at::kFloat).device(on.device));
  return wide_copy(dropout(ones, {seeds, key, 0.25}));
}

TEST_P(LoraLinear, GradientOfItsInputHasThatOfTheUpdate) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const at::Tensor want = at::matmul(wide_copy(c.grad_output), wide_copy(c.weight.value)) +
                            at::matmul(wide_copy(c.s), wide_copy(c.a.value));
    poison_free_memory(on);
    expect_close(
        lora_linear_backward_input(c.grad_output, c.weight, c.s, c.a, shape.modules, {}, {}), want,
        on.tolerance, shape.text());
    expect_close(
        lora_linear_backward_input(c.grad_output, c.weight, c.s, c.a, shape.modules, {}, {}, c.sum),
        want + wide_copy(c.sum), on.tolerance, shape.text() + ", another gradient");
  }
}

void expect_low_rank_gradients(const OperatorCase& on, Case c, double tolerance) {
  const at::Tensor g = wide_copy(c.grad_output);
  for (const bool accumulate : {false, true}) {
    for (Parameter& parameter : c.b) parameter.accumulate = accumulate;
    poison_free_memory(on);
    const at::Tensor ds =
        lora_linear_backward_low_rank(c.grad_output, c.s, c.shape.modules, c.b_of(), {});
    const at::Tensor want = at::zeros(c.s.sizes(), at::kDouble);
    c.for_each_module(want, g, [&](std::size_t m, const at::Tensor& to, const at::Tensor& rows) {
      to.copy_(at::matmul(rows, wide_copy(c.b[m].value)) * c.shape.modules[m].scale);
    });
    expect_close(ds, want, on.tolerance, c.shape.text() + ", d(x A^T)");
    c.for_each_module(wide_copy(c.s), g,
                      [&](std::size_t m, const at::Tensor& s, const at::Tensor& rows) {
                        expect_close(c.b[m].grad, at::matmul(rows.t(), s) * (accumulate ? 2 : 1),
                                     tolerance, c.shape.text() + ", dB");
                      });
  }
}

TEST_P(LoraLinear, WritesOrAddsGradientsOfItsFactors) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    Case c(on, shape);
    expect_low_rank_gradients(on, c, on.tolerance);
    for (Parameter& parameter : c.b) {
      parameter.grad = at::full_like(parameter.grad, std::nan(""), at::kFloat);
    }
    expect_low_rank_gradients(on, c, 1e-5);
  }
}

TEST_P(LoraLinear, LowRankProductHasTheScaleOfEachModule) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const at::Tensor want = at::matmul(wide_copy(c.x), wide_copy(c.a.value).t());
    c.for_each_module(want, c.residual,
                      [&](std::size_t m, const at::Tensor& columns, const at::Tensor&) {
                        columns.mul_(shape.modules[m].scale);
                      });
    expect_close(lora_low_rank(c.x, c.a, shape.modules, {}, {}), want, on.tolerance, shape.text());
  }
}

// x of each module with its mask, and the gradient of x with the same mask.
TEST_P(LoraLinear, DropoutHasTheMaskOfEachModuleInAllProductsWithA) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    Case c(on, shape);
    const at::Tensor seeds = at::arange(0, shape.rows, at::TensorOptions(at::kInt)).to(on.device);
    const LoraDropout dropout{seeds, 0.25};
    const at::Tensor s = lora_low_rank(c.x, c.a, shape.modules, dropout, {});
    const at::Tensor dx = lora_linear_backward_input(c.grad_output, c.weight, c.s, c.a,
                                                     shape.modules, dropout, {}, c.sum);
    lora_backward_a(c.s, c.x, c.a, shape.modules, dropout, {});
    at::Tensor want = at::matmul(wide_copy(c.grad_output), wide_copy(c.weight.value));
    want.add_(wide_copy(c.sum));
    std::int64_t first = 0;
    for (const LoraModule& module : shape.modules) {
      const at::Tensor a = wide_copy(c.a.value.narrow(0, first, module.rank));
      const at::Tensor low = wide_copy(c.s.narrow(1, first, module.rank));
      const at::Tensor mask = mask_of(on, module, seeds, shape.in);
      const at::Tensor x = wide_copy(c.x) * mask;
      expect_close(s.narrow(1, first, module.rank), at::matmul(x, a.t()) * module.scale,
                   on.tolerance, shape.text() + ", s");
      expect_close(c.a.grad.narrow(0, first, module.rank), at::matmul(low.t(), x), on.tolerance,
                   shape.text() + ", dA");
      want.add_(at::matmul(low, a) * mask);
      first += module.rank;
    }
    expect_close(dx, want, on.tolerance, shape.text() + ", dx");
  }
}

TEST_P(LoraLinear, ManyTilesMatch) {
  const OperatorCase& on = GetParam();
  if (!on.device.is_cuda()) GTEST_SKIP() << "more tiles than a GPU has processors";
  const Shape shape{3000, 1032, 4608, {{"gate", 0, 2304, 16, 2.0}, {"up", 2304, 2304, 32, 2.0}}};
  const Case c(on, shape);
  expect_close(
      lora_linear_forward(c.x, c.weight, nullptr, c.s, shape.modules, c.b_of(), {}, c.residual),
      at::matmul(wide_copy(c.x), wide_copy(c.weight.value).t()) + update(c) + wide_copy(c.residual),
      on.tolerance, "forward");
  expect_close(lora_linear_backward_input(c.grad_output, c.weight, c.s, c.a, shape.modules, {}, {}),
               at::matmul(wide_copy(c.grad_output), wide_copy(c.weight.value)) +
                   at::matmul(wide_copy(c.s), wide_copy(c.a.value)),
               on.tolerance, "backward");
  expect_low_rank_gradients(on, c, on.tolerance);
}

TEST_P(LoraLinear, TwoRunsHaveEqualBits) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const auto forward = [&] {
      return lora_linear_forward(c.x, c.weight, nullptr, c.s, shape.modules, c.b_of(), {});
    };
    EXPECT_TRUE(forward().equal(forward())) << shape.text();
    const auto backward = [&] {
      return lora_linear_backward_input(c.grad_output, c.weight, c.s, c.a, shape.modules, {}, {});
    };
    EXPECT_TRUE(backward().equal(backward())) << shape.text();
    const auto low_rank = [&] {
      return lora_linear_backward_low_rank(c.grad_output, c.s, shape.modules, c.b_of(), {});
    };
    const at::Tensor first = low_rank();
    const at::Tensor first_b = c.b[0].grad.clone();
    EXPECT_TRUE(first.equal(low_rank())) << shape.text();
    EXPECT_TRUE(first_b.equal(c.b[0].grad)) << shape.text();
  }
}

TEST_P(LoraLinear, SkipsFrozenFactors) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    Case c(on, shape);
    const at::Tensor want =
        lora_linear_backward_low_rank(c.grad_output, c.s, shape.modules, c.b_of(), {});
    for (Parameter& parameter : c.b) parameter.grad = at::Tensor();
    EXPECT_TRUE(
        want.equal(lora_linear_backward_low_rank(c.grad_output, c.s, shape.modules, c.b_of(), {})));
    EXPECT_FALSE(c.b[0].grad.defined());
  }
}

}  // namespace
}  // namespace packtrain::lora_linear_test
