// Linear layers whose weight is stored in NF4, against float64 with the decoded weight.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "models/ops/linear/linear.h"
#include "models/ops/linear/lora_cuda.h"
#include "models/ops/nf4/nf4.h"
#include "models/ops/nf4/nf4_gemm_cuda.h"
#include "tests/models/cases.h"

namespace packtrain::nf4_linear_test {
namespace {

class Nf4Linear : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Nf4Linear, testing::ValuesIn(operator_cases()), case_name);

// Rows of each part of a weight, which has groups of its own, and its columns.
struct WeightShape {
  std::vector<std::int64_t> parts;
  std::int64_t columns;
};

// Parts end within tiles of 128, stages of 64 and groups. Depths of 1 to 80 stages, whole and
// divided over the blocks of a cluster. decode_weight() alone takes the last two of them.
std::vector<WeightShape> weight_shapes(const OperatorCase& on) {
  if (on.device.is_cpu()) return {{{17, 23, 24}, 512}, {{64}, 64}};
  return {{{64}, 256},   {{192, 64, 64}, 512}, {{320}, 768}, {{1000, 24}, 1024}, {{64, 64}, 5120},
          {{5120}, 256}, {{17, 23, 24}, 2560}, {{40}, 256},  {{64}, 64}};
}

struct EncodedWeight {
  Parameter parameter;  // its value is NaN until it is decoded
  at::Tensor decoded;   // float64 on the CPU
};

EncodedWeight encoded_weight(const OperatorCase& on, const WeightShape& shape) {
  std::vector<at::Tensor> groups;
  std::vector<ElementRange> ranges;
  std::int64_t rows = 0;
  for (const std::int64_t part : shape.parts) {
    const std::int64_t numel = part * shape.columns;
    const at::Tensor values =
        random_tensor(on, {numel}, "part " + std::to_string(rows)) * (0.02 + 1e-5 * rows);
    groups.push_back(
        at::zeros({num_nf4_groups(numel) * kNf4GroupBytes}, values.options().dtype(at::kByte)));
    nf4_quantize_tensor(numel, 0, groups.back(), [&](std::int64_t begin, std::int64_t count) {
      return values.narrow(0, begin, count);
    });
    ranges.push_back({rows * shape.columns, numel});
    rows += part;
  }
  EncodedWeight weight;
  const auto encoded =
      std::make_shared<EncodedParameter>(EncodedParameter{at::cat(groups), ranges});
  const at::Tensor nan = at::full({rows, shape.columns}, std::nan(""), on.options());
  weight.parameter.value = nan.clone();
  nf4_decode(*encoded, weight.parameter.value.view({-1}));
  weight.decoded = wide_copy(weight.parameter.value);
  weight.parameter.value = nan;
  weight.parameter.encoded = encoded;
  return weight;
}

// Rows of a tile, of two and of a part. The CPU has no tiles.
std::vector<std::int64_t> row_counts(const OperatorCase& on) {
  if (on.device.is_cpu()) return {1, 20};
  return {1, 7, 128, 129, 200, 256, 300, 512, 513};
}

TEST_P(Nf4Linear, TheProductIsThatOfTheDecodedWeight) {
  const OperatorCase& on = GetParam();
  for (const WeightShape& shape : weight_shapes(on)) {
    const EncodedWeight weight = encoded_weight(on, shape);
    for (const std::int64_t rows : row_counts(on)) {
      const at::Tensor x = random_tensor(on, {rows, shape.columns}, "x");
      poison_free_memory(on);
      expect_close(linear_forward(x, weight.parameter, nullptr, {}),
                   at::matmul(wide_copy(x), weight.decoded.t()), on.tolerance,
                   std::to_string(rows) + " rows, weight of " +
                       std::to_string(weight.decoded.numel()) + " elements");
    }
  }
}

TEST_P(Nf4Linear, BiasAndResidualAreAdded) {
  const OperatorCase& on = GetParam();
  for (const WeightShape& shape : weight_shapes(on)) {
    const EncodedWeight weight = encoded_weight(on, shape);
    const at::Tensor x = random_tensor(on, {130, shape.columns}, "x");
    const at::Tensor residual = random_tensor(on, {130, weight.decoded.size(0)}, "residual");
    const Parameter bias = random_parameter(on, {weight.decoded.size(0)}, "bias");
    const at::Tensor product = at::matmul(wide_copy(x), weight.decoded.t());
    expect_close(linear_forward(x, weight.parameter, &bias, {}, residual),
                 product + wide_copy(bias.value) + wide_copy(residual), on.tolerance, "both");
  }
}

TEST_P(Nf4Linear, TheGradientOfTheInputIsThatOfTheDecodedWeight) {
  const OperatorCase& on = GetParam();
  for (const WeightShape& shape : weight_shapes(on)) {
    const EncodedWeight weight = encoded_weight(on, shape);
    for (const std::int64_t rows : row_counts(on)) {
      const at::Tensor grad = random_tensor(on, {rows, weight.decoded.size(0)}, "grad");
      const at::Tensor sum = random_tensor(on, {rows, shape.columns}, "sum");
      const at::Tensor want = at::matmul(wide_copy(grad), weight.decoded);
      poison_free_memory(on);
      expect_close(linear_backward_input(grad, weight.parameter, {}), want, on.tolerance, "d x");
      expect_close(linear_backward_input(grad, weight.parameter, {}, sum), want + wide_copy(sum),
                   on.tolerance, "d x and another gradient");
    }
  }
}

TEST_P(Nf4Linear, RowsMayBePartsOfLongerOnes) {
  const OperatorCase& on = GetParam();
  const EncodedWeight weight = encoded_weight(on, {{128}, 512});
  const at::Tensor x = random_tensor(on, {40, 1024}, "x").narrow(1, 256, 512);
  const at::Tensor grad = random_tensor(on, {40, 256}, "grad").narrow(1, 64, 128);
  const at::Tensor residual = random_tensor(on, {40, 144}, "residual").narrow(1, 8, 128);
  expect_close(linear_forward(x, weight.parameter, nullptr, {}),
               at::matmul(wide_copy(x), weight.decoded.t()), on.tolerance, "product");
  expect_close(linear_forward(x, weight.parameter, nullptr, {}, residual),
               at::matmul(wide_copy(x), weight.decoded.t()) + wide_copy(residual), on.tolerance,
               "product and residual");
  expect_close(linear_backward_input(grad, weight.parameter, {}),
               at::matmul(wide_copy(grad), weight.decoded), on.tolerance, "d x");
}

TEST_P(Nf4Linear, ARowThatIsNotFiniteStaysAlone) {
  const OperatorCase& on = GetParam();
  const EncodedWeight weight = encoded_weight(on, {{192}, 768});
  const at::Tensor x = random_tensor(on, {20, 768}, "x");
  const at::Tensor want = linear_forward(x, weight.parameter, nullptr, {});
  x[3].fill_(std::nan(""));
  const at::Tensor got = linear_forward(x, weight.parameter, nullptr, {});
  EXPECT_TRUE(got[3].isnan().all().item<bool>());
  EXPECT_TRUE(got.narrow(0, 4, 16).equal(want.narrow(0, 4, 16)));
}

TEST_P(Nf4Linear, TheSameProductHasTheSameBits) {
  const OperatorCase& on = GetParam();
  const EncodedWeight weight = encoded_weight(on, {{128}, 4096});
  const at::Tensor x = random_tensor(on, {100, 4096}, "x");
  const at::Tensor first = linear_forward(x, weight.parameter, nullptr, {});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(linear_forward(x, weight.parameter, nullptr, {}).equal(first));
  }
}

TEST_P(Nf4Linear, TheKernelTakesFewRowsOfWholeStages) {
  const OperatorCase& on = GetParam();
  const auto takes = [&](std::int64_t rows, const WeightShape& shape) {
    return nf4_gemm_takes(random_tensor(on, {rows, shape.columns}, "x"),
                          encoded_weight(on, shape).parameter, nullptr, {});
  };
  const bool has_kernel = on.device.is_cuda() && on.dtype == at::kBFloat16 && has_lora_kernels();
  EXPECT_EQ(takes(1, {{64}, 256}), has_kernel);
  EXPECT_EQ(takes(512, {{17, 23, 24}, 2560}), has_kernel);
  EXPECT_FALSE(takes(513, {{64}, 256}));
  EXPECT_FALSE(takes(0, {{64}, 256}));
  EXPECT_FALSE(takes(1, {{40}, 256}));
  EXPECT_FALSE(takes(1, {{64}, 64}));
}

}  // namespace
}  // namespace packtrain::nf4_linear_test
