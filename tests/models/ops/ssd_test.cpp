// Mamba-2's state space model against its recurrence in float64, token by token.
#include "models/ops/mamba2/ssd.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/block/batch.h"
#include "models/ops/mamba2/steps.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/models/cases.h"

namespace packtrain::ssd_test {
namespace {

using Boundaries = std::vector<std::int32_t>;

class StateSpaceModel : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, StateSpaceModel, testing::ValuesIn(operator_cases()), case_name);

struct Sizes {
  std::int64_t groups;
  std::int64_t heads;
  std::int64_t state;    // rows of a state
  std::int64_t columns;  // of a head
};

OperatorCase in_float32(OperatorCase on) {
  on.dtype = at::kFloat;
  return on;
}

SsdInputs inputs_of(const OperatorCase& on, std::int64_t num_rows, const Sizes& sizes) {
  const OperatorCase numbers = in_float32(on);
  const double length = 1.0 / std::sqrt(static_cast<double>(sizes.state));
  const at::Tensor decay = random_tensor(numbers, {num_rows, sizes.heads}, "g");
  return {random_tensor(on, {num_rows, sizes.heads, sizes.columns}, "x"),
          random_tensor(on, {num_rows, sizes.groups, sizes.state}, "b"),
          random_tensor(on, {num_rows, sizes.groups, sizes.state}, "c") * length,
          at::softplus(random_tensor(numbers, {num_rows, sizes.heads}, "steps")),
          decay * decay * -0.3};
}

std::vector<at::Tensor> list_of(const SsdInputs& inputs) {
  return {inputs.x, inputs.b, inputs.c, inputs.steps, inputs.g};
}

SsdInputs poisoned_like(const SsdInputs& in) {
  const auto like = [](const at::Tensor& x) { return x.clone().fill_(std::nan("")); };
  return {like(in.x), like(in.b), like(in.c), like(in.steps), like(in.g)};
}

// The first formula of ssd.h, one row and one head after another.
at::Tensor recurrence(const std::vector<at::Tensor>& in, const at::Tensor& skip,
                      const Boundaries& boundaries) {
  const std::int64_t num_heads = in[0].size(1);
  const std::int64_t share = num_heads / in[1].size(1);
  std::vector<at::Tensor> rows;
  for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
    std::vector<at::Tensor> states(
        static_cast<std::size_t>(num_heads),
        at::zeros({in[1].size(2), in[0].size(2)}, at::TensorOptions(at::kDouble)));
    for (std::int64_t t = boundaries[s]; t < boundaries[s + 1]; ++t) {
      std::vector<at::Tensor> outputs;
      for (std::int64_t h = 0; h < num_heads; ++h) {
        at::Tensor& state = states[static_cast<std::size_t>(h)];
        const at::Tensor x = in[0][t][h];
        state = state * at::exp(in[4][t][h]) + at::outer(in[1][t][h / share], in[3][t][h] * x);
        outputs.push_back(at::matmul(state.t(), in[2][t][h / share]) + skip[h] * x);
      }
      rows.push_back(at::stack(outputs));
    }
  }
  return at::stack(rows);
}

void expect_recurrence(const OperatorCase& on, const Boundaries& boundaries, const Sizes& sizes) {
  const SsdInputs inputs = inputs_of(on, boundaries.back(), sizes);
  const Parameter skip = random_parameter(in_float32(on), {sizes.heads}, "skip");
  const SsdOptions options{boundaries};
  const at::Tensor grad = random_tensor(on, inputs.x.sizes(), "d y");
  poison_free_memory(on);
  const at::Tensor got = ssd_forward(inputs, skip, options);
  const SsdInputs got_grads = poisoned_like(inputs);
  poison_free_memory(on);
  ssd_backward(grad, inputs, skip, options, got_grads);

  std::vector<at::Tensor> leaves;  // on the CPU
  for (const at::Tensor& input : list_of(inputs)) leaves.push_back(reference_leaf(input));
  leaves.push_back(reference_leaf(skip.value));
  const at::Tensor want = recurrence(leaves, leaves.back(), boundaries);
  EXPECT_EQ(got.scalar_type(), on.dtype);
  expect_close(got, want.detach(), on.tolerance, "y");
  const auto want_grads = torch::autograd::grad({want}, leaves, {wide_copy(grad)});
  const std::vector<std::string> names = {"d x", "d b", "d c", "d steps", "d g"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    expect_close(list_of(got_grads)[i], want_grads[i], on.tolerance, names[i]);
  }
  expect_close(skip.grad, want_grads.back(), on.tolerance, "d D");
}

TEST_P(StateSpaceModel, OneSequenceIsItsRecurrence) {
  for (const std::int32_t length : {1, 2, 63, 64, 65, 130}) {
    SCOPED_TRACE(length);
    expect_recurrence(GetParam(), {0, length}, {1, 2, 5, 7});
  }
}

TEST_P(StateSpaceModel, EachOfSeveralSequencesIsItsOwnRecurrence) {
  expect_recurrence(GetParam(), {0, 1, 2, 67, 131, 131, 140}, {3, 3, 6, 5});
}

TEST_P(StateSpaceModel, HeadsOfAGroupShareItsStateInputs) {
  expect_recurrence(GetParam(), {0, 9, 150}, {2, 6, 4, 3});
}

TEST_P(StateSpaceModel, StatesOfSeveralTilesHaveTheirRecurrence) {
  expect_recurrence(GetParam(), {0, 66, 70}, {1, 1, 128, 64});
  expect_recurrence(GetParam(), {0, 20, 150}, {1, 2, 40, 72});
  expect_recurrence(GetParam(), {0, 66}, {1, 1, 70, 130});
}

// Sizes that kernels on tensor cores take in bfloat16: multiples of 8, also of several tiles.
TEST_P(StateSpaceModel, SizesOfTensorCoresHaveTheirRecurrence) {
  expect_recurrence(GetParam(), {0, 1, 2, 67, 131, 131, 268}, {1, 3, 16, 8});
  expect_recurrence(GetParam(), {0, 63, 200}, {2, 6, 64, 64});
  expect_recurrence(GetParam(), {0, 66, 70}, {1, 2, 136, 80});
  expect_recurrence(GetParam(), {0, 129}, {1, 1, 256, 128});
}

TEST_P(StateSpaceModel, SequencesOfOneRowHaveTheirRecurrence) {
  Boundaries boundaries(301);
  std::iota(boundaries.begin(), boundaries.end(), 0);
  expect_recurrence(GetParam(), boundaries, {1, 2, 16, 8});
}

// The whole of ssd_forward and ssd_backward of some rows.
struct Results {
  at::Tensor y;
  SsdInputs grads;
};

Results results_of(const OperatorCase& on, const SsdInputs& in, const at::Tensor& grad,
                   const Boundaries& boundaries) {
  const Parameter skip = random_parameter(in_float32(on), {in.x.size(1)}, "skip");
  const SsdInputs grads = poisoned_like(in);
  ssd_backward(grad, in, skip, {boundaries}, grads);
  return {ssd_forward(in, skip, {boundaries}), grads};
}

SsdInputs rows_of(const SsdInputs& in, std::int64_t begin, std::int64_t size) {
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, begin, size); };
  return {part(in.x), part(in.b), part(in.c), part(in.steps), part(in.g)};
}

// Kernels on tensor cores take these sizes in bfloat16.
TEST_P(StateSpaceModel, OfTwoThousandSequencesIsThatOfEachAlone) {
  const OperatorCase& on = GetParam();
  Boundaries boundaries = {0};
  for (int s = 0; s < 2000; ++s) boundaries.push_back(boundaries.back() + 1 + s % 3);
  const SsdInputs in = inputs_of(on, boundaries.back(), {1, 2, 16, 8});
  const at::Tensor grad = random_tensor(on, in.x.sizes(), "d y");
  const Results all = results_of(on, in, grad, boundaries);
  for (const std::size_t s : {0, 1, 2, 999, 1000, 1999}) {
    const std::int32_t begin = boundaries[s], size = boundaries[s + 1] - begin;
    const Results alone =
        results_of(on, rows_of(in, begin, size), grad.narrow(0, begin, size), {0, size});
    expect_close(all.y.narrow(0, begin, size), wide_copy(alone.y), 1e-6, "y");
    expect_close(all.grads.x.narrow(0, begin, size), wide_copy(alone.grads.x), 1e-6, "d x");
    expect_close(all.grads.g.narrow(0, begin, size), wide_copy(alone.grads.g), 1e-6, "d g");
  }
}

void expect_no_read_of_another_sequence(const OperatorCase& on, const Sizes& sizes) {
  const SsdInputs in = inputs_of(on, 160, sizes);
  const at::Tensor grad = random_tensor(on, in.x.sizes(), "d y");
  const Boundaries boundaries = {0, 70, 160};
  const Results before = results_of(on, in, grad, boundaries);
  for (const at::Tensor& input : list_of(in)) input.narrow(0, 0, 70).fill_(std::nan(""));
  const Results after = results_of(on, in, grad, boundaries);
  EXPECT_TRUE(after.y.narrow(0, 70, 90).equal(before.y.narrow(0, 70, 90)));
  for (std::size_t i = 0; i < 5; ++i) {
    const auto last = [&](const Results& of) { return list_of(of.grads)[i].narrow(0, 70, 90); };
    EXPECT_TRUE(last(after).equal(last(before))) << i;
  }
}

TEST_P(StateSpaceModel, NeverReadsAnotherSequence) {
  expect_no_read_of_another_sequence(GetParam(), {1, 2, 5, 4});
  expect_no_read_of_another_sequence(GetParam(), {1, 2, 24, 16});
}

TEST_P(StateSpaceModel, TakesColumnsOfALargerTensor) {
  const OperatorCase& on = GetParam();
  const at::Tensor rows = random_tensor(on, {90, 40}, "rows");
  const at::Tensor grad_rows = random_tensor(on, {90, 40}, "gradients");
  const auto split = [](const at::Tensor& from) {
    return SsdInputs{from.narrow(1, 3, 24).unflatten(1, at::IntArrayRef{3, 8}),
                     from.narrow(1, 27, 5).unflatten(1, at::IntArrayRef{1, 5}),
                     from.narrow(1, 32, 5).unflatten(1, at::IntArrayRef{1, 5}),
                     {},
                     {}};
  };
  SsdInputs in = split(rows);
  const SsdInputs numbers = inputs_of(on, 90, {1, 3, 5, 8});
  in.steps = numbers.steps;
  in.g = numbers.g;
  const at::Tensor grad = random_tensor(on, {90, 3, 8}, "d y");
  const Parameter skip = random_parameter(in_float32(on), {3}, "skip");
  const Boundaries boundaries = {0, 20, 90};
  SsdInputs grads = split(grad_rows);
  grads.steps = numbers.steps.clone();
  grads.g = numbers.g.clone();
  ssd_backward(grad, in, skip, {boundaries}, grads);
  const SsdInputs copy = {in.x.contiguous(), in.b.contiguous(), in.c.contiguous(), in.steps, in.g};
  const Results want = results_of(on, copy, grad, boundaries);
  EXPECT_TRUE(ssd_forward(in, skip, {boundaries}).equal(want.y));
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(list_of(grads)[i].equal(list_of(want.grads)[i])) << i;
  }
}

TEST_P(StateSpaceModel, ShapesThatDoNotFitAreRefused) {
  const OperatorCase& on = GetParam();
  const SsdInputs in = inputs_of(on, 12, {1, 2, 4, 3});
  const Parameter skip = random_parameter(in_float32(on), {3}, "skip");
  const Boundaries boundaries = {0, 12};
  const Error error = test::error_of([&] { ssd_forward(in, skip, {boundaries}); });
  EXPECT_NE(error.message().find("x [12, 2, 3]"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("skip weight [3]"), std::string::npos) << error.message();
}

TEST_P(StateSpaceModel, StepsAndDecaysAreTheirFormula) {
  const OperatorCase& on = GetParam();
  const at::Tensor rows = random_tensor(on, {40, 9}, "rows");
  const at::Tensor projected = rows.narrow(1, 2, 5);
  const Parameter a_log = random_parameter(in_float32(on), {5}, "A_log");
  const Parameter bias = random_parameter(in_float32(on), {5}, "bias");
  const SsdStepParameters parameters{a_log, bias, 0.2, 1.5};
  const SsdSteps got = ssd_steps_forward(projected, parameters);
  const SsdSteps grads = {random_tensor(in_float32(on), {40, 5}, "d steps"),
                          random_tensor(in_float32(on), {40, 5}, "d g")};
  const at::Tensor grad = rows.clone();
  ssd_steps_backward(grads, projected, parameters, grad.narrow(1, 2, 5));

  const std::vector<at::Tensor> leaves = {reference_leaf(projected), reference_leaf(a_log.value),
                                          reference_leaf(bias.value)};
  const at::Tensor steps = at::softplus(leaves[0] + leaves[2]).clamp(0.2, 1.5);
  const at::Tensor g = steps * -at::exp(leaves[1]);
  expect_close(got.steps, steps.detach(), 1e-6, "steps");
  expect_close(got.g, g.detach(), 1e-6, "g");
  EXPECT_GT(steps.eq(0.2).sum().item<int>(), 0);
  EXPECT_GT(steps.eq(1.5).sum().item<int>(), 0);
  const auto want =
      torch::autograd::grad({steps, g}, leaves, {wide_copy(grads.steps), wide_copy(grads.g)});
  expect_close(grad.narrow(1, 2, 5), want[0], on.tolerance, "d projected");
  expect_close(a_log.grad, want[1], 1e-5, "d A_log");
  expect_close(bias.grad, want[2], 1e-5, "d bias");
  EXPECT_TRUE(grad.narrow(1, 0, 2).equal(rows.narrow(1, 0, 2)));
}

}  // namespace
}  // namespace packtrain::ssd_test
