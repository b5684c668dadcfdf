// Each operator against its formula in float64, forward and backward, per device and dtype.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "models/ops/rotary/rotary.h"
#include "models/ops/swiglu/swiglu.h"
#include "tests/models/cases.h"

namespace packtrain {
namespace {

class Operator : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Operator, testing::ValuesIn(operator_cases()), case_name);

TEST_P(Operator, SwigluMatchesItsFormula) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, inner] : {std::pair{1, 8}, {29, 24}, {64, 128}}) {
    const std::int64_t width = inner;
    expect_matches_reference(on, random_tensor(on, {rows, 2 * width}, "x") * 3, {}, swiglu,
                             [width](const at::Tensor& x, const auto&) {
                               const at::Tensor gate = x.narrow(1, 0, width);
                               return gate * at::sigmoid(gate) * x.narrow(1, width, width);
                             });
  }
}

TEST_P(Operator, RotaryTurnsQueriesAndKeysAndKeepsValues) {
  const OperatorCase& on = GetParam();
  const std::int64_t head_dim = 16;
  const std::int64_t num_rotated = 6;
  const at::Tensor positions = int_tensor(on, some_ids(21, 300));
  const auto frequencies = rotary_frequencies(10000.0, head_dim, {});
  const RotaryFrequencies on_device(frequencies);
  const RotaryTables tables = rotary_tables(positions, on_device.on(on.device));
  const at::Tensor angles =
      at::matmul(
          positions.to(at::kCPU, at::kDouble).unsqueeze(1),
          at::tensor(frequencies, at::TensorOptions(at::kFloat)).to(at::kDouble).unsqueeze(0))
          .unsqueeze(1);
  // Angles up to 300 in float32 are exact to 2e-5.
  OperatorCase looser = on;
  looser.tolerance = std::max(on.tolerance, 3e-5);
  expect_matches_reference(
      looser, random_tensor(on, {21, 8, head_dim}, "qkv"), {},
      [&](const at::Tensor& x) { return rotary(x, num_rotated, tables); },
      [&](const at::Tensor& x, const auto&) {
        const at::Tensor turning = x.narrow(1, 0, num_rotated);
        const at::Tensor first = turning.narrow(2, 0, head_dim / 2);
        const at::Tensor second = turning.narrow(2, head_dim / 2, head_dim / 2);
        const at::Tensor cos = angles.cos();
        const at::Tensor sin = angles.sin();
        const at::Tensor turned =
            at::cat({first * cos - second * sin, second * cos + first * sin}, 2);
        return at::cat({turned, x.narrow(1, num_rotated, 8 - num_rotated)}, 1);
      });
}

}  // namespace
}  // namespace packtrain
