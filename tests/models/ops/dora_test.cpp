// Magnitudes of the rows of linear layers against float64, forward and backward, per device and
// dtype.
#include "models/ops/linear/dora.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/models/cases.h"

namespace packtrain::dora_test {
namespace {

class Dora : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Dora, testing::ValuesIn(operator_cases()), case_name);

struct Shape {
  std::int64_t rows, in, out;
  LoraModules modules;

  std::string text() const {
    return fmt::format("{} rows, {} -> {}, {} modules", rows, in, out, modules.size());
  }
};

// Rows before, between and after modules have no magnitude.
std::vector<Shape> shapes() {
  return {
      {0, 8, 16, {{"a", 0, 16, 8, 2.0}}},
      {7, 5, 3, {{"a", 0, 3, 2, 2.0}}},
      {130, 64, 24, {{"a", 0, 8, 4, 1.0}, {"b", 8, 16, 4, 0.5}}},
      {1061, 200, 520, {{"a", 8, 264, 8, 0.5}, {"b", 280, 136, 24, 1.5}}},
      {2050, 72, 1000, {{"a", 120, 200, 64, 0.25}}},
  };
}

struct Case {
  const Shape& shape;
  at::Tensor x;
  at::Tensor grad_output;
  at::Tensor residual;
  Parameter weight;
  Parameter bias;
  Parameter a;
  std::vector<Parameter> b;
  std::vector<Parameter> magnitudes;  // float32

  Case(const OperatorCase& on, const Shape& of)
      : shape(of),
        x(random_tensor(on, {of.rows, of.in}, "x")),
        grad_output(random_tensor(on, {of.rows, of.out}, "grad_output")),
        residual(random_tensor(on, {of.rows, of.out}, "residual")),
        weight(random_parameter(on, {of.out, of.in}, "weight")),
        bias(random_parameter(on, {of.out}, "bias")),
        a(random_parameter(on, {total_rank(of.modules), of.in}, "a")) {
    const OperatorCase exact{on.device, at::kFloat, 0};
    for (const LoraModule& module : of.modules) {
      b.push_back(random_parameter(on, {module.num_rows, module.rank}, module.name));
      magnitudes.push_back(random_parameter(exact, {module.num_rows}, module.name + " magnitude"));
    }
  }

  std::vector<const Parameter*> b_of() const { return pointers_to(b); }
  std::vector<const Parameter*> magnitudes_of() const { return pointers_to(magnitudes); }
  at::Tensor norms() const { return dora_norms(weight, a, shape.modules, b_of(), {}); }
  at::Tensor factors() const { return dora_factors(norms(), shape.modules, magnitudes_of()); }
};

at::Tensor rows_of(const at::Tensor& matrix, const LoraModule& module) {
  return matrix.narrow(0, module.begin, module.num_rows);
}

// W + scale B A in float64.
at::Tensor wide_sum(const Case& c) {
  at::Tensor sum = wide_copy(c.weight.value);
  std::int64_t first = 0;
  for (std::size_t m = 0; m < c.b.size(); ++m) {
    const LoraModule& module = c.shape.modules[m];
    const at::Tensor a = wide_copy(c.a.value).narrow(0, first, module.rank);
    rows_of(sum, module).add_(at::matmul(wide_copy(c.b[m].value), a), module.scale);
    first += module.rank;
  }
  return sum;
}

TEST_P(Dora, NormsAreThoseOfTheRowsOfWeightAndUpdate) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const at::Tensor norms = c.norms();
    EXPECT_EQ(norms.scalar_type(), at::kFloat);
    at::Tensor want = at::ones({shape.out}, at::kDouble);
    for (const LoraModule& module : shape.modules) {
      rows_of(want, module).copy_(rows_of(wide_sum(c), module).norm(2, {1}));
    }
    expect_close(norms, want, 1e-5, shape.text());
  }
}

TEST_P(Dora, ARowOfZerosHasAFiniteFactor) {
  const OperatorCase& on = GetParam();
  const Shape shape = shapes()[1];
  Case c(on, shape);
  c.weight.value.zero_();
  c.b[0].value.zero_();
  c.magnitudes[0].value.zero_();
  EXPECT_EQ(c.factors().abs().max().item<float>(), 0.0F);
}

// Those of rows without a module are 1.
at::Tensor wide_factors(const Case& c) {
  at::Tensor factors = at::ones({c.shape.out}, at::kDouble);
  for (std::size_t m = 0; m < c.b.size(); ++m) {
    const LoraModule& module = c.shape.modules[m];
    rows_of(factors, module)
        .copy_(wide_copy(c.magnitudes[m].value) / rows_of(wide_sum(c), module).norm(2, {1}));
  }
  return factors;
}

TEST_P(Dora, ScalesRowsBeforeBiasAndResidualAreAdded) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    const at::Tensor& z = c.grad_output;  // any values
    const at::Tensor product = wide_copy(z) * wide_factors(c);
    const at::Tensor bias = wide_copy(c.bias.value);
    const at::Tensor residual = wide_copy(c.residual);
    poison_free_memory(on);
    const auto scaled = [&](const Parameter* with_bias, const at::Tensor& with_residual) {
      return dora_scale_forward(z, c.factors(), with_bias, with_residual);
    };
    expect_close(scaled(nullptr, {}), product, on.tolerance, shape.text());
    expect_close(scaled(&c.bias, {}), product + bias, on.tolerance, shape.text() + ", bias");
    expect_close(scaled(nullptr, c.residual), product + residual, on.tolerance,
                 shape.text() + ", residual");
    expect_close(scaled(&c.bias, c.residual), product + bias + residual, on.tolerance,
                 shape.text() + ", both");
  }
}

TEST_P(Dora, BackwardWritesOrAddsTheGradientsOfMagnitudes) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    Case c(on, shape);
    const at::Tensor norms = c.norms();
    const at::Tensor grad = wide_copy(c.grad_output);
    const at::Tensor sums = (grad * wide_copy(c.residual)).sum(0);
    for (const bool accumulate : {false, true}) {
      for (Parameter& parameter : c.magnitudes) parameter.accumulate = accumulate;
      const at::Tensor z = c.residual.clone();
      poison_free_memory(on);
      const at::Tensor got = dora_scale_backward_in_place(c.grad_output, z, c.factors());
      dora_backward_magnitudes(got, norms, shape.modules, c.magnitudes_of());
      expect_close(z, grad * wide_factors(c), on.tolerance, shape.text() + ", dz");
      for (std::size_t m = 0; m < c.b.size(); ++m) {
        const LoraModule& module = shape.modules[m];
        const at::Tensor want = rows_of(sums, module) / wide_copy(rows_of(norms, module));
        expect_close(c.magnitudes[m].grad, want * (accumulate ? 2 : 1), 1e-5,
                     shape.text() + ", dm");
      }
    }
  }
}

TEST_P(Dora, TwoRunsHaveEqualBits) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    const Case c(on, shape);
    EXPECT_TRUE(c.norms().equal(c.norms())) << shape.text();
    const auto sums = [&] {
      return dora_scale_backward_in_place(c.grad_output, c.residual.clone(), c.factors());
    };
    EXPECT_TRUE(sums().equal(sums())) << shape.text();
  }
}

// 0 or 1 / (1 - 0.25), float64 on the CPU.
at::Tensor mask_of(const OperatorCase& on, const LoraModule& module, const LoraDropout& dropout,
                   std::int64_t width) {
  const at::Tensor ones =
      at::ones({dropout.row_seeds.size(0), width}, at::TensorOptions(at::kFloat).device(on.device));
  return wide_copy(lora_dropped(ones, module, dropout));
}

// The layer with dropout in float64, by PEFT's formula.
struct Reference {
  at::Tensor x;
  at::Tensor a;
  std::vector<at::Tensor> b;
  std::vector<at::Tensor> magnitudes;
  at::Tensor y;

  Reference(const OperatorCase& on, const Case& c, const LoraDropout& dropout)
      : x(reference_leaf(c.x)), a(reference_leaf(c.a.value)) {
    const at::Tensor weight = wide_copy(c.weight.value);
    y = at::matmul(x, weight.t()) + wide_copy(c.bias.value) + wide_copy(c.residual);
    std::int64_t first = 0;
    for (std::size_t m = 0; m < c.b.size(); ++m) {
      const LoraModule& module = c.shape.modules[m];
      b.push_back(reference_leaf(c.b[m].value));
      magnitudes.push_back(reference_leaf(c.magnitudes[m].value));
      const at::Tensor factors = magnitudes[m] / rows_of(wide_sum(c), module).norm(2, {1});
      const at::Tensor dropped = x * mask_of(on, module, dropout, c.shape.in);
      const at::Tensor low = at::matmul(dropped, a.narrow(0, first, module.rank).t());
      const at::Tensor update = at::matmul(low, b[m].t()) * module.scale;
      const at::Tensor base = at::matmul(dropped, rows_of(weight, module).t());
      const at::Tensor added = (factors - 1) * base + factors * update;
      y = y +
          at::constant_pad_nd(added, {module.begin, c.shape.out - module.begin - module.num_rows});
      first += module.rank;
    }
  }
};

TEST_P(Dora, WithDropoutTheLayerIsThatOfPeft) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    Case c(on, shape);
    const LoraDropout dropout{at::arange(0, shape.rows, at::TensorOptions(at::kInt)).to(on.device),
                              0.25};
    const Reference want(on, c, dropout);
    const at::Tensor norms = c.norms();
    const at::Tensor s = lora_low_rank(c.x, c.a, shape.modules, dropout, {});
    const at::Tensor z =
        dora_dropped_forward(c.x, c.weight, s, shape.modules, c.b_of(), dropout, {});
    const at::Tensor y = dora_scale_forward(z, c.factors(), &c.bias, c.residual);
    dora_add_rest(y, c.x, c.weight, shape.modules, dropout, {});
    expect_close(y, want.y, on.tolerance, shape.text() + ", y");

    want.y.backward(wide_copy(c.grad_output));
    const at::Tensor sums = dora_scale_backward_in_place(c.grad_output, z, c.factors());
    dora_backward_magnitudes(sums, norms, shape.modules, c.magnitudes_of());
    at::Tensor dx =
        dora_rest_backward_input(c.grad_output, c.weight, shape.modules, dropout, {}, {});
    const at::Tensor low = lora_linear_backward_low_rank(z, s, shape.modules, c.b_of(), {});
    dx = dora_dropped_backward_input(z, c.weight, low, c.a, shape.modules, dropout, {}, dx);
    lora_backward_a(low, c.x, c.a, shape.modules, dropout, {});
    expect_close(dx, want.x.grad(), on.tolerance, shape.text() + ", dx");
    expect_close(c.a.grad, want.a.grad(), on.tolerance, shape.text() + ", dA");
    for (std::size_t m = 0; m < c.b.size(); ++m) {
      expect_close(c.b[m].grad, want.b[m].grad(), on.tolerance, shape.text() + ", dB");
      expect_close(c.magnitudes[m].grad, want.magnitudes[m].grad(), on.tolerance,
                   shape.text() + ", dm");
    }
  }
}

}  // namespace
}  // namespace packtrain::dora_test
