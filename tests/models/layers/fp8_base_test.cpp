// A frozen weight with 8-bit products under low-rank updates, against float64 with the same rounded
// operands.
#include "models/layers/fp8_base.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "models/block/executing_tape.h"
#include "models/layers/recorded_operators.h"
#include "models/ops/fp8/fp8.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_base_test {
namespace {

class Fp8BaseLayer : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8BaseLayer, testing::ValuesIn(operator_cases()), case_name);

struct Shape {
  std::int64_t rows;
  std::int64_t width;       // of x and of y, so that x can be the residual too
  std::int64_t first_rows;  // of the first of two adapters
  LoraModules modules;      // some rows have none
  LoraModules other;
};

// Kernels have tiles of 128 rows and 256 columns. The first shape is for the plain path on each
// device.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {37,
       48,
       20,
       {{"q_proj", 0, 16, 4, 2.0}, {"v_proj", 32, 16, 3, 0.5}},
       {{"q_proj", 0, 16, 5, 1.5}}},
      {1061,
       272,
       300,
       {{"q_proj", 0, 104, 8, 2.0}, {"v_proj", 128, 144, 24, 0.5}},
       {{"q_proj", 0, 104, 72, 1.5}}},
      {1500, 1040, 1024, {{"q_proj", 0, 1040, 16, 2.0}}, {{"q_proj", 256, 512, 16, 1.5}}}};
  return all;
}

at::Tensor rounded(const at::Tensor& x, Fp8Format format) {
  const at::Tensor scale = make_fp8_scale(x);
  const Fp8Copies copies = fp8_cast(x, scale, {.format = format, .rows = true});
  return copies.rows.cpu().to(at::kFloat).to(at::kDouble) * scale[0].cpu().item<double>();
}

struct Pass {
  std::vector<Parameter> parameters;
  at::Tensor x;
  at::Tensor grad;
  at::Tensor y;
  at::Tensor dx;
};

// Forward and backward of x W^T + b + x and the updates. W and b are frozen.
Pass run_layer(const OperatorCase& on, const Shape& shape, std::vector<Parameter> updates,
               LinearOptions options, DeviceBatch batch = {}) {
  Pass pass;
  pass.parameters = {random_parameter(on, {shape.width, shape.width}, "weight"),
                     random_parameter(on, {shape.width}, "bias")};
  for (Parameter& frozen : pass.parameters) frozen.grad.reset();
  pass.parameters.insert(pass.parameters.end(), updates.begin(), updates.end());
  pass.x = random_tensor(on, {shape.rows, shape.width}, "x");
  pass.grad = random_tensor(on, {shape.rows, shape.width}, "grad") * 3e-4;
  options.width = shape.width;
  options.bias = true;
  options.trained = false;
  const OperatorOptions operator_options;
  const RecomputePolicy policy = RecomputePolicy::none();
  ExecutingTape tape(pass.parameters, {batch, BlockMode::kTrain, operator_options});
  const Value input = tape.input(pass.x);
  const Value y = linear(tape, "layer", input, options, input);
  pass.y = tape.forward(y, &policy);
  pass.dx = tape.backward(y, pass.grad, pass.parameters);
  return pass;
}

std::vector<Parameter> parameters_of(const OperatorCase& on, std::int64_t width,
                                     const LoraModules& modules, const std::string& name) {
  std::vector<Parameter> all = {random_parameter(on, {total_rank(modules), width}, name + "A")};
  for (const LoraModule& module : modules) {
    all.push_back(random_parameter(on, {module.num_rows, module.rank}, name + module.name));
  }
  return all;
}

LinearOptions options_with(std::vector<WeightUpdate> updates) {
  LinearOptions options;
  options.updates = std::move(updates);
  options.fp8 = Fp8Products::kForwardAndInput;
  return options;
}

WeightUpdate update_of(const LoraModules& modules, const std::string& name = "") {
  return {std::make_shared<const LoraModules>(modules), 0, name};
}

// The terms of one adapter in y and dx, and the gradients of its factors, of rows [begin, end).
struct Terms {
  at::Tensor y;
  at::Tensor dx;
  std::vector<at::Tensor> gradients;
};

Terms reference(const Pass& pass, const LoraModules& modules, std::size_t first, std::int64_t begin,
                std::int64_t end) {
  const auto rows_of = [&](const at::Tensor& rows) {
    at::Tensor own = at::zeros_like(rows);
    own.narrow(0, begin, end - begin).copy_(rows.narrow(0, begin, end - begin));
    return own;
  };
  const at::Tensor x = rows_of(wide_copy(pass.x));
  const at::Tensor g = rows_of(wide_copy(pass.grad));
  const at::Tensor all_a = wide_copy(pass.parameters.at(first).value);
  Terms terms{at::zeros_like(g), at::zeros_like(x), {at::zeros_like(all_a)}};
  std::int64_t column = 0;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const LoraModule& module = modules[m];
    const at::Tensor a = all_a.narrow(0, column, module.rank);
    const at::Tensor b = wide_copy(pass.parameters.at(first + 1 + m).value);
    const at::Tensor own = g.narrow(1, module.begin, module.num_rows);
    const at::Tensor s = at::matmul(x, a.t()) * module.scale;
    const at::Tensor ds = at::matmul(own, b) * module.scale;
    terms.y.narrow(1, module.begin, module.num_rows) += at::matmul(s, b.t());
    terms.dx += at::matmul(ds, a);
    terms.gradients.front().narrow(0, column, module.rank) += at::matmul(ds.t(), x);
    terms.gradients.push_back(at::matmul(own.t(), s));
    column += module.rank;
  }
  return terms;
}

at::Tensor base_y(const Pass& pass) {
  const at::Tensor product = at::matmul(rounded(pass.x, Fp8Format::kE4M3),
                                        rounded(pass.parameters[0].value, Fp8Format::kE4M3).t());
  return product + wide_copy(pass.parameters[1].value) + wide_copy(pass.x);
}

at::Tensor base_dx(const Pass& pass) {
  return at::matmul(rounded(pass.grad, Fp8Format::kE5M2),
                    rounded(pass.parameters[0].value, Fp8Format::kE4M3)) +
         wide_copy(pass.grad);
}

void expect_gradients(const Pass& pass, const Terms& terms, std::size_t first, double tolerance) {
  for (std::size_t i = 0; i < terms.gradients.size(); ++i) {
    expect_close(pass.parameters.at(first + i).grad, terms.gradients[i], tolerance,
                 "factor " + std::to_string(first + i));
  }
}

// Two roundings to bfloat16: of the base product, and of the sum. Tensor cores sum 8-bit products
// in 14 bits.
double tolerance_of(const OperatorCase& on) {
  return on.device.is_cuda() ? std::max(2 * on.tolerance, 4e-3) : 2 * on.tolerance;
}

TEST_P(Fp8BaseLayer, OnlyTheBaseProductsReadRoundedOperands) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.rows);
    const Pass pass = run_layer(on, shape, parameters_of(on, shape.width, shape.modules, ""),
                                options_with({update_of(shape.modules)}));
    const Terms terms = reference(pass, shape.modules, 2, 0, shape.rows);
    expect_close(pass.y, base_y(pass) + terms.y, tolerance_of(on), "y");
    expect_close(pass.dx, base_dx(pass) + terms.dx, tolerance_of(on), "dx");
    expect_gradients(pass, terms, 2, 2 * on.tolerance);
  }
}

TEST_P(Fp8BaseLayer, RowsOfSeveralAdaptersHaveTheirOwnUpdates) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(shape.rows);
    std::vector<Parameter> updates = parameters_of(on, shape.width, shape.modules, "one");
    const std::size_t second = 2 + updates.size();
    for (Parameter& parameter : parameters_of(on, shape.width, shape.other, "two")) {
      updates.push_back(parameter);
    }
    const auto first_rows = static_cast<std::int32_t>(shape.first_rows);
    const auto rows = static_cast<std::int32_t>(shape.rows);
    DeviceBatch batch;
    batch.input_ids = int_tensor(on, some_ids(shape.rows, 8));
    batch.adapter_rows = {int_tensor(on, {0, first_rows, rows}), {0, first_rows, rows}};
    const Pass pass = run_layer(
        on, shape, updates,
        options_with({update_of(shape.modules, "one"), update_of(shape.other, "two")}), batch);
    const Terms one = reference(pass, shape.modules, 2, 0, shape.first_rows);
    const Terms two = reference(pass, shape.other, second, shape.first_rows, shape.rows);
    expect_close(pass.y, base_y(pass) + one.y + two.y, tolerance_of(on), "y");
    expect_close(pass.dx, base_dx(pass) + one.dx + two.dx, tolerance_of(on), "dx");
    expect_gradients(pass, one, 2, 2 * on.tolerance);
    expect_gradients(pass, two, second, 2 * on.tolerance);
  }
}

TEST_P(Fp8BaseLayer, ANumberThatIsNotFiniteReachesAllOutputs) {
  const OperatorCase& on = GetParam();
  for (const Shape& shape : shapes()) {
    std::vector<Parameter> updates = parameters_of(on, shape.width, shape.modules, "");
    updates[1].value[3][1] = HUGE_VAL;
    const Pass pass = run_layer(on, shape, updates, options_with({update_of(shape.modules)}));
    EXPECT_FALSE(pass.y.isfinite().all().item<bool>());
    EXPECT_FALSE(pass.dx.isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace packtrain::fp8_base_test
