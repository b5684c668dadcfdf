// Casts to 8-bit floats: the arithmetic against libtorch's, and each device against it, bit by bit.
#include "models/ops/fp8/fp8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "models/ops/activation/activation.h"
#include "models/ops/layer_norm/layer_norm.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_test {
namespace {

constexpr Fp8Format kFormats[] = {Fp8Format::kE4M3, Fp8Format::kE5M2};

double largest_value(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? 448 : 57344;
}

std::string name_of(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? "e4m3" : "e5m2";
}

std::uint8_t encode(float x, Fp8Format format) {
  return fp8::encode(std::bit_cast<std::uint32_t>(x), format);
}

// Codes as numbers that tests can compare.
at::Tensor codes_of(const at::Tensor& x) {
  return x.view(at::kByte).cpu();
}

// All bfloat16, and random float32 of many magnitudes.
at::Tensor many_values() {
  const at::Tensor bits = at::arange(0, 1 << 16, at::TensorOptions(at::kInt)).to(at::kShort);
  const OperatorCase on{at::Device(at::kCPU), at::kFloat, 0};
  const at::Tensor random = random_tensor(on, {1 << 16}, "values");
  const at::Tensor powers = random_tensor(on, {1 << 16}, "powers") * 8;
  return at::cat({bits.view(at::kBFloat16).to(at::kFloat), random * powers.exp2(),
                  // Half-way between two codes, for ties.
                  at::arange(0, 4096, at::TensorOptions(at::kFloat)) / 4096});
}

TEST(Fp8Encode, NumbersWithinTheRangeAreThoseOfLibtorch) {
  const at::Tensor values = many_values();
  for (const Fp8Format format : kFormats) {
    const at::Tensor want = codes_of(values.to(fp8_scalar_type(format)));
    std::int64_t num_compared = 0;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      const float x = values.const_data_ptr<float>()[i];
      if (!(std::abs(x) <= largest_value(format))) continue;
      ++num_compared;
      ASSERT_EQ(int{encode(x, format)}, int{want.const_data_ptr<std::uint8_t>()[i]})
          << x << " in " << name_of(format);
    }
    EXPECT_GT(num_compared, 90000);
  }
}

TEST(Fp8Encode, LargerNumbersBecomeTheLargestOne) {
  for (const Fp8Format format : kFormats) {
    const auto largest = static_cast<float>(largest_value(format));
    const std::uint8_t code = encode(largest, format);
    for (const float x :
         {largest * 1.0001F, largest * 1.2F, 1e30F, std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(int{encode(x, format)}, int{code}) << x;
      EXPECT_EQ(int{encode(-x, format)}, code | 0x80) << x;
    }
    EXPECT_EQ(int{encode(std::nanf(""), format)}, 0x7F);
  }
}

TEST(Fp8Scale, IsTheLargestPowerOfTwoThatFits) {
  for (const Fp8Format format : kFormats) {
    for (const float amax : {1.0F, 1.75F, 1.7500001F, 1.9999F, 448.0F, 449.0F, 1e-20F, 3e38F}) {
      const fp8::ScaleBits bits = fp8::scale_of(std::bit_cast<std::uint32_t>(amax), format);
      const double multiplier = std::bit_cast<float>(bits.multiplier);
      EXPECT_EQ(std::bit_cast<float>(bits.factor) * multiplier, 1.0) << amax;
      EXPECT_EQ(std::exp2(std::round(std::log2(multiplier))), multiplier) << amax;
      EXPECT_LE(amax * multiplier, largest_value(format)) << amax;
      EXPECT_GT(amax * multiplier * 2, largest_value(format)) << amax;
    }
  }
}

TEST(Fp8Scale, OfZerosIsOneAndOfNumbersThatAreNotFiniteIsNone) {
  for (const Fp8Format format : kFormats) {
    EXPECT_EQ(std::bit_cast<float>(fp8::scale_of(0, format).factor), 1.0F);
    for (const float amax : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      const auto bits = fp8::scale_of(std::bit_cast<std::uint32_t>(amax), format);
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(bits.factor)));
      EXPECT_TRUE(std::isnan(std::bit_cast<float>(bits.multiplier)));
    }
    // Of a subnormal number both are still numbers.
    const auto least = fp8::scale_of(1, format);
    EXPECT_EQ(std::bit_cast<float>(least.factor) * std::bit_cast<float>(least.multiplier), 1.0F);
  }
}

class Fp8CastTest : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8CastTest, testing::ValuesIn(operator_cases()), case_name);

// Ends within tiles of 128 x 128 and within 16 padded rows.
constexpr std::int64_t kShapes[][2] = {{1, 16},    {7, 48},     {16, 128},  {127, 144}, {128, 256},
                                       {130, 112}, {300, 1024}, {1000, 80}, {257, 4096}};

// What a cast must give: the arithmetic above, element by element.
struct Expected {
  at::Tensor rows;
  at::Tensor columns;
  float factor = 0;
  float amax = 0;
};

Expected expected(const at::Tensor& x, Fp8Format format) {
  const at::Tensor values = x.cpu().to(at::kFloat).contiguous();
  Expected want;
  want.amax = values.abs().max().item<float>();
  const auto scale = fp8::scale_of(std::bit_cast<std::uint32_t>(want.amax), format);
  want.factor = std::bit_cast<float>(scale.factor);
  want.rows = at::empty(values.sizes(), at::TensorOptions(at::kByte));
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    want.rows.data_ptr<std::uint8_t>()[i] =
        encode(values.const_data_ptr<float>()[i] * std::bit_cast<float>(scale.multiplier), format);
  }
  want.columns = at::zeros({x.size(1), fp8_padded(x.size(0))}, at::TensorOptions(at::kByte));
  want.columns.narrow(1, 0, x.size(0)).copy_(want.rows.t());
  return want;
}

void expect_cast(const at::Tensor& x, Fp8Format format, const std::string& what) {
  const Expected want = expected(x, format);
  const at::Tensor scale = make_fp8_scale(x);
  const Fp8Copies copies = fp8_cast(x, scale, {.format = format, .rows = true, .columns = true});
  EXPECT_EQ(scale[0].item<float>(), want.factor) << what;
  EXPECT_EQ(scale[1].item<float>(), want.amax) << what;
  EXPECT_TRUE(codes_of(copies.rows).equal(want.rows)) << what;
  EXPECT_TRUE(codes_of(copies.columns).equal(want.columns)) << what << ", columns";
}

TEST_P(Fp8CastTest, EveryBitIsThatOfTheArithmetic) {
  const OperatorCase& on = GetParam();
  for (const auto& [rows, columns] : kShapes) {
    const at::Tensor x = random_tensor(on, {rows, columns}, "x");
    for (const Fp8Format format : kFormats) {
      poison_free_memory(on);
      expect_cast(x, format, name_of(format) + " of " + std::to_string(rows) + " rows");
    }
  }
}

TEST_P(Fp8CastTest, SmallNumbersBecomeSubnormalOnesOrZero) {
  const OperatorCase& on = GetParam();
  const at::Tensor powers = random_tensor(on, {260, 64}, "powers").to(at::kFloat) * 6;
  const at::Tensor x =
      random_tensor(on, {260, 64}, "x").to(at::kFloat).mul(powers.exp2()).to(on.dtype);
  for (const Fp8Format format : kFormats) {
    expect_cast(x, format, "many magnitudes");
    const at::Tensor outlier = x * 1e-6;
    outlier[17][5] = 3e4;
    expect_cast(outlier, format, "one huge number");
    expect_cast(at::full_like(x, 1e-39), format, "subnormal numbers");
    expect_cast(at::zeros_like(x), format, "zeros");
  }
}

TEST_P(Fp8CastTest, ANumberThatIsNotFiniteMakesAllOfThemNan) {
  const OperatorCase& on = GetParam();
  for (const double wrong : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const at::Tensor x = random_tensor(on, {140, 48}, "x");
    x[139][47] = wrong;
    const at::Tensor scale = make_fp8_scale(x);
    const Fp8Copies copies = fp8_cast(x, scale, {.rows = true, .columns = true});
    EXPECT_TRUE(scale[0].isnan().item<bool>());
    EXPECT_TRUE(codes_of(copies.rows).eq(0x7F).all().item<bool>());
    EXPECT_TRUE(codes_of(copies.columns).narrow(1, 140, 4).eq(0).all().item<bool>());
  }
}

TEST_P(Fp8CastTest, AKnownScaleGivesTheSameCodes) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {200, 160}, "x");
  const at::Tensor scale = make_fp8_scale(x);
  const Fp8Copies both = fp8_cast(x, scale, {.rows = true, .columns = true});
  EXPECT_FALSE(fp8_cast(x, scale, {.rows = true}).columns.defined());
  const Fp8Copies again = fp8_cast(x, scale, {.columns = true, .has_known_scale = true});
  EXPECT_FALSE(again.rows.defined());
  EXPECT_TRUE(codes_of(again.columns).equal(codes_of(both.columns)));
}

// On the CPU the cast finds it itself.
TEST_P(Fp8CastTest, KernelsFindTheAmaxOfWhatTheyWrite) {
  const OperatorCase& on = GetParam();
  const auto expect_same = [](const at::Tensor& y, const at::Tensor& amax, const char* what) {
    const at::Tensor scale = make_fp8_scale(y);
    const at::Tensor own = make_fp8_scale(y);
    fp8_cast(y, scale, {.rows = true, .amax = amax});
    fp8_cast(y, own, {.rows = true});
    EXPECT_TRUE(scale.equal(own)) << what << ": " << scale << own;
  };
  for (const auto& [rows, columns] : kShapes) {
    const at::Tensor x = random_tensor(on, {rows, columns}, "x");
    const Parameter weight = random_parameter(on, {columns}, "weight");
    at::Tensor amax = make_fp8_amax(x);
    expect_same(rms_norm_forward(x, weight, {}, amax).y, amax, "RMS norm");
    amax = make_fp8_amax(x);
    expect_same(layer_norm_forward(x, weight, nullptr, {}, amax).y, amax, "layer norm");
    for (const bool gated : {true, false}) {
      const Activation activation{ActivationKind::kSilu, gated};
      const at::Tensor in = random_tensor(on, {rows, gated ? 2 * columns : columns}, "in");
      amax = make_fp8_amax(x);
      expect_same(activation_forward(in, activation, amax), amax, "activation");
      amax = make_fp8_amax(x);
      activation_backward_in_place(random_tensor(on, {rows, columns}, "grad"), in, activation, true,
                                   amax);
      expect_same(in, amax, "activation backward");
    }
  }
}

TEST_P(Fp8CastTest, ANumberThatIsNotFiniteIsTheAmaxThatKernelsFind) {
  const OperatorCase& on = GetParam();
  const at::Tensor in = random_tensor(on, {33, 64}, "in");
  in[20][11] = std::nan("");
  const at::Tensor amax = make_fp8_amax(in);
  const at::Tensor y = activation_forward(in, {ActivationKind::kSilu, false}, amax);
  const at::Tensor scale = make_fp8_scale(y);
  fp8_cast(y, scale, {.rows = true, .amax = amax});
  EXPECT_TRUE(scale[0].isnan().item<bool>());
}

TEST_P(Fp8CastTest, RowsMayBePartsOfLongerOnes) {
  const OperatorCase& on = GetParam();
  expect_cast(random_tensor(on, {50, 96}, "x").narrow(1, 16, 64), Fp8Format::kE4M3, "a part");
  const at::Tensor whole = random_tensor(on, {50 * 96 + 3}, "x");
  expect_cast(whole.narrow(0, 3, 50 * 96).view({50, 96}), Fp8Format::kE4M3, "not aligned");
}

TEST_P(Fp8CastTest, ATensorWithoutRowsHasNoCodes) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = at::empty({0, 32}, on.options());
  const at::Tensor scale = make_fp8_scale(x);
  const Fp8Copies copies = fp8_cast(x, scale, {.rows = true, .columns = true});
  EXPECT_EQ(copies.rows.sizes(), (std::vector<std::int64_t>{0, 32}));
  EXPECT_EQ(copies.columns.sizes(), (std::vector<std::int64_t>{32, 0}));
  EXPECT_EQ(scale[0].item<float>(), 1.0F);
}

TEST_P(Fp8CastTest, RowsThatAreNoWholeVectorsAreRefused) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {4, 24}, "x");
  EXPECT_THROW(fp8_cast(x, make_fp8_scale(x), {.rows = true}), Error);
}

}  // namespace
}  // namespace packtrain::fp8_test
