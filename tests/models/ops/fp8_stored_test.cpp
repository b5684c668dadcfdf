// Weights that are stored as 8-bit floats with one scale.
#include "models/ops/fp8/fp8_stored.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <memory>

#include "models/block/fp8_bytes.h"
#include "models/ops/encoded_weight.h"
#include "models/ops/fp8/fp8.h"
#include "models/ops/fp8/fp8_linear.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_stored_test {
namespace {

class Fp8Stored : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8Stored, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kShapes[][2] = {{16, 16}, {48, 1040}, {144, 272}, {256, 128}};

at::Tensor stored_bytes(const at::Tensor& values) {
  const at::Tensor scale = fp8_scale_of(values.abs().max().item<float>()).to(values.device());
  const at::Tensor codes = fp8_codes_of(values.reshape({-1}), scale);
  const at::Tensor rest = at::zeros({kFp8ScaleBytes - 8}, codes.options());
  return at::cat({codes, scale.view(at::kByte), rest});
}

// A weight of these values whose decoded ones are NaN until they are decoded.
Parameter stored(const at::Tensor& values) {
  Parameter weight{at::empty_like(values).fill_(std::numeric_limits<double>::quiet_NaN()), {}};
  weight.encoded = std::make_shared<EncodedParameter>(EncodedParameter{
      stored_bytes(values), {{0, values.numel()}}, ParameterEncoding::Format::kFp8});
  const at::Tensor& bytes = weight.encoded->bytes;
  weight.fp8_codes = bytes.narrow(0, 0, values.numel()).view(at::kFloat8_e4m3fn).view_as(values);
  weight.fp8_scale = bytes.narrow(0, values.numel(), 8).view(at::kFloat);
  return weight;
}

TEST_P(Fp8Stored, ItsValuesAreThoseOfACast) {
  const OperatorCase& on = GetParam();
  for (const auto& [out, in] : kShapes) {
    const at::Tensor values = random_tensor(on, {out, in}, "weight") * 0.02;
    const at::Tensor scale = make_fp8_scale(values);
    const at::Tensor codes = fp8_cast(values, scale, {.rows = true}).rows;
    const Parameter weight = stored(values);
    decode_weight(weight);
    EXPECT_TRUE(weight.value.equal((codes.to(at::kFloat) * scale[0]).to(on.dtype)));
  }
}

TEST_P(Fp8Stored, ProductsReadItAsTheyReadACast) {
  const OperatorCase& on = GetParam();
  for (const auto& [out, in] : kShapes) {
    const at::Tensor values = random_tensor(on, {out, in}, "weight");
    const Parameter plain{values, {}};
    const Parameter weight = stored(values);
    const at::Tensor x = random_tensor(on, {33, in}, "x");
    const at::Tensor g = random_tensor(on, {33, out}, "g");
    const at::Tensor x_scale = make_fp8_scale(x);
    const at::Tensor g_scale = make_fp8_scale(g);
    const at::Tensor scale = make_fp8_scale(x);
    const Fp8Operand rows{fp8_cast(x, x_scale, {.rows = true}).rows, x_scale};
    const Fp8Operand grads{fp8_cast(g, g_scale, {.format = Fp8Format::kE5M2, .rows = true}).rows,
                           g_scale};
    const at::Tensor y = fp8_linear_forward(rows, plain, scale, nullptr, {});
    const at::Tensor dx = fp8_linear_backward_input(grads, plain, scale, {});
    const at::Tensor known = fp8_weight_scale(weight, x);
    EXPECT_TRUE(fp8_linear_forward(rows, weight, known, nullptr, {}).equal(y));
    EXPECT_TRUE(fp8_linear_backward_input(grads, weight, known, {}).equal(dx));
    EXPECT_TRUE(weight.value.isnan().all().item<bool>()) << "decoded";
  }
}

TEST_P(Fp8Stored, ANumberThatIsNotFiniteMakesAllValuesNan) {
  const OperatorCase& on = GetParam();
  const at::Tensor values = random_tensor(on, {32, 16}, "weight");
  values[3][5] = std::numeric_limits<double>::infinity();
  const Parameter weight = stored(values);
  decode_weight(weight);
  EXPECT_TRUE(weight.value.isnan().all().item<bool>());
}

TEST_P(Fp8Stored, OfZerosIsZero) {
  const OperatorCase& on = GetParam();
  const Parameter weight = stored(at::zeros({32, 16}, on.options()));
  decode_weight(weight);
  EXPECT_TRUE(weight.value.equal(at::zeros({32, 16}, on.options())));
}

}  // namespace
}  // namespace packtrain::fp8_stored_test
