// Scales of weights from largest magnitudes that are known, against those that casts find.
#include "models/ops/fp8/fp8_weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_linear.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_weight_test {
namespace {

class Fp8Weight : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8Weight, testing::ValuesIn(operator_cases()), case_name);

// The scale of each weight.
at::Tensor scales_of(const std::vector<at::Tensor>& weights) {
  const auto count = std::ssize(weights);
  const at::TensorOptions on = weights.front().options();
  const at::Tensor amax = at::zeros({count}, on.dtype(at::kInt));
  for (std::int64_t i = 0; i < count; ++i) {
    amax[i].copy_(weights[i].abs().max().to(at::kFloat).view(at::kInt));
  }
  at::Tensor scales = at::zeros({count, kFp8ScaleStride}, on.dtype(at::kFloat));
  fp8_weight_scales(amax, scales);
  return scales;
}

TEST_P(Fp8Weight, ScalesAreThoseThatCastsFind) {
  const OperatorCase& on = GetParam();
  std::vector<at::Tensor> weights;
  for (const double factor : {1.0, 0.013, 0.0, 700.0, 1e-30, HUGE_VAL}) {
    weights.push_back(random_tensor(on, {48, 64}, "weight") * factor);
  }
  weights[5][2][3] = std::nan("");
  const at::Tensor scales = scales_of(weights);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const at::Tensor found = make_fp8_scale(weights[i]);
    fp8_cast(weights[i], found, {.rows = true});
    const at::Tensor scale = scales[static_cast<std::int64_t>(i)].narrow(0, 0, 2);
    const bool is_finite = i < 5;
    EXPECT_EQ(scale.isfinite().all().item<bool>(), is_finite) << i << scale;
    EXPECT_EQ(scale.equal(found), is_finite) << i << scale << found;
  }
}

TEST_P(Fp8Weight, AProductWithAKnownScaleHasTheSameBits) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {40, 96}, "x");
  const at::Tensor x_scale = make_fp8_scale(x);
  const Fp8Operand rows{fp8_cast(x, x_scale, {.rows = true}).rows, x_scale};
  Parameter weight = random_parameter(on, {32, 96}, "weight");
  const at::Tensor found = fp8_weight_scale(weight, x);
  const at::Tensor want = fp8_linear_forward(rows, weight, found, nullptr, {});
  weight.fp8_scale = scales_of({weight.value})[0].narrow(0, 0, 2);
  const at::Tensor known = fp8_weight_scale(weight, x);
  EXPECT_EQ(known.const_data_ptr(), weight.fp8_scale.const_data_ptr());
  EXPECT_TRUE(fp8_linear_forward(rows, weight, known, nullptr, {}).equal(want));
  EXPECT_TRUE(known.equal(found));
}

TEST_P(Fp8Weight, AScaleIsNotSoughtWhereItIsKnown) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {16, 32}, "x");
  const at::Tensor x_scale = make_fp8_scale(x);
  const Fp8Operand rows{fp8_cast(x, x_scale, {.rows = true}).rows, x_scale};
  Parameter weight = random_parameter(on, {32, 32}, "weight");
  weight.fp8_scale = scales_of({weight.value * 64})[0].narrow(0, 0, 2);
  const at::Tensor before = weight.fp8_scale.clone();
  fp8_linear_forward(rows, weight, fp8_weight_scale(weight, x), nullptr, {});
  EXPECT_TRUE(weight.fp8_scale.equal(before));
}

Fp8Copies cast_of(const at::Tensor& weight) {
  const at::Tensor scale = make_fp8_scale(weight);
  return fp8_cast(weight, scale, {.rows = true, .columns = true});
}

TEST_P(Fp8Weight, CodesOfPartsAreThoseOfTheWhole) {
  const OperatorCase& on = GetParam();
  const at::Tensor weight = random_tensor(on, {112, 144}, "weight");
  const at::Tensor scale = scales_of({weight})[0].narrow(0, 0, 2);
  const at::Tensor before = scale.clone();
  const at::Tensor flat = weight.view({-1});
  const at::Tensor codes = at::zeros({flat.numel()}, on.options().dtype(at::kByte));
  std::int64_t begin = 0;
  for (const std::int64_t end : {256, 4096, 4352, 112 * 144}) {
    fp8_encode(flat.narrow(0, begin, end - begin), scale, codes.narrow(0, begin, end - begin));
    begin = end;
  }
  EXPECT_TRUE(codes.equal(cast_of(weight).rows.view(at::kByte).view({-1})));
  EXPECT_TRUE(scale.equal(before));
}

TEST_P(Fp8Weight, TransposedCodesAreTheColumnsOfACast) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, columns] :
       {std::pair{16, 16}, {48, 128}, {128, 128}, {144, 112}, {272, 1040}}) {
    const Fp8Copies copies = cast_of(random_tensor(on, {rows, columns}, "weight"));
    poison_free_memory(on);
    EXPECT_TRUE(fp8_transpose(copies.rows).view(at::kByte).equal(copies.columns.view(at::kByte)))
        << rows << " x " << columns;
  }
}

TEST_P(Fp8Weight, ProductsOfGatheredCodesHaveTheSameBits) {
  const OperatorCase& on = GetParam();
  Parameter weight = random_parameter(on, {48, 96}, "weight");
  weight.fp8_scale = scales_of({weight.value})[0].narrow(0, 0, 2);
  Parameter gathered = weight;
  gathered.fp8_codes = cast_of(weight.value).rows;
  gathered.value = at::full({}, std::nan(""), on.options()).expand({48, 96});
  const at::Tensor x = random_tensor(on, {40, 96}, "x");
  const at::Tensor x_scale = make_fp8_scale(x);
  const Fp8Operand rows{fp8_cast(x, x_scale, {.rows = true}).rows, x_scale};
  const at::Tensor grad = random_tensor(on, {40, 48}, "grad");
  const at::Tensor grad_scale = make_fp8_scale(grad);
  const Fp8Cast e5m2{.format = Fp8Format::kE5M2, .rows = true};
  const Fp8Operand grad_rows{fp8_cast(grad, grad_scale, e5m2).rows, grad_scale};
  const at::Tensor& scale = weight.fp8_scale;
  EXPECT_TRUE(fp8_linear_forward(rows, gathered, scale, nullptr, {})
                  .equal(fp8_linear_forward(rows, weight, scale, nullptr, {})));
  EXPECT_TRUE(fp8_linear_backward_input(grad_rows, gathered, scale, {})
                  .equal(fp8_linear_backward_input(grad_rows, weight, scale, {})));
}

TEST_P(Fp8Weight, PartsThatAreNoWholeRowsAreRefused) {
  const OperatorCase& on = GetParam();
  const at::Tensor scale = make_fp8_scale(random_tensor(on, {1}, "x"));
  const at::Tensor codes = at::zeros({512}, on.options().dtype(at::kByte));
  EXPECT_THROW(fp8_encode(random_tensor(on, {257}, "x"), scale, codes.narrow(0, 0, 257)), Error);
  EXPECT_THROW(fp8_encode(random_tensor(on, {256}, "x"), scale, codes), Error);
  EXPECT_THROW(fp8_transpose(codes.view({64, 8})), Error);
  EXPECT_THROW(fp8_transpose(codes.view({16, 32}).t()), Error);
}

TEST_P(Fp8Weight, MemoryThatDoesNotFitIsRefused) {
  const auto on = GetParam().options();
  const at::Tensor amax = at::zeros({3}, on.dtype(at::kInt));
  const at::Tensor scales = at::zeros({3, kFp8ScaleStride}, on.dtype(at::kFloat));
  EXPECT_THROW(fp8_weight_scales(amax.to(at::kLong), scales), Error);
  EXPECT_THROW(fp8_weight_scales(amax, scales.to(at::kDouble)), Error);
  EXPECT_THROW(fp8_weight_scales(amax, scales.narrow(0, 0, 2)), Error);
}

}  // namespace
}  // namespace packtrain::fp8_weight_test
