// The products of experts' rows with 8-bit operands.
#include "models/ops/experts/fp8_expert_product.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "models/ops/experts/expert_linear.h"
#include "models/ops/experts/permute.h"
#include "models/ops/fp8/fp8.h"
#include "tests/models/cases.h"

namespace packtrain::fp8_expert_product_test {
namespace {

class Fp8ExpertProduct : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, Fp8ExpertProduct, testing::ValuesIn(operator_cases()), case_name);

constexpr std::int64_t kTokens = 150;
constexpr std::int64_t kExperts = 5;
constexpr std::int64_t kOut = 96;
constexpr std::int64_t kIn = 80;

// Two experts a token. The last expert has none.
TokenPermutation two_experts_a_token(const OperatorCase& on) {
  std::vector<std::int32_t> experts;
  for (std::int32_t t = 0; t < kTokens; ++t) {
    experts.push_back(t % 3);
    experts.push_back(t % 3 == 0 ? 3 : 0);
  }
  return sort_tokens_by_expert(int_tensor(on, experts).view({kTokens, 2}), kExperts);
}

at::Tensor rounded(const at::Tensor& x, Fp8Format format) {
  const at::Tensor scale = make_fp8_scale(x);
  const at::Tensor codes = fp8_cast(x, scale, {.format = format, .rows = true}).rows;
  return codes.cpu().to(at::kFloat).to(at::kDouble) * scale[0].cpu().item<double>();
}

double tolerance_of(const OperatorCase& on) {
  return on.device.is_cpu() ? on.tolerance : std::max(on.tolerance, 2e-3);
}

TEST_P(Fp8ExpertProduct, TokensHaveTheProductsOfTheirCopies) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {kExperts, kOut, kIn}, "weight");
  const at::Tensor x = random_tensor(on, {kTokens, kIn}, "x");
  const TokenPermutation order = two_experts_a_token(on);
  const at::Tensor of_tokens = fp8_expert_forward(x, {}, weight, order, {});
  const at::Tensor copies = permute_rows(x, order.permuted_rows, {});
  EXPECT_TRUE(of_tokens.equal(fp8_expert_forward(copies, {}, weight, order.ends, {})));
}

TEST_P(Fp8ExpertProduct, BothProductsAreThoseOfTheRoundedNumbers) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {kExperts, kOut, kIn}, "weight");
  weight.value[1] *= 50;
  const TokenPermutation order = two_experts_a_token(on);
  const at::Tensor rows = random_tensor(on, {2 * kTokens, kIn}, "rows");
  const at::Tensor grad = random_tensor(on, {2 * kTokens, kOut}, "grad");
  const at::Tensor y = fp8_expert_forward(rows, {}, weight, order.ends, {});
  const at::Tensor dx = fp8_expert_backward_input(grad, {}, weight, order.ends, {});
  const at::Tensor rows8 = rounded(rows, Fp8Format::kE4M3);
  const at::Tensor grad8 = rounded(grad, Fp8Format::kE5M2);
  const at::Tensor experts = experts_of(order).cpu();
  const at::Tensor all8 =
      rounded(weight.value.flatten(0, 1), Fp8Format::kE4M3).view({kExperts, kOut, kIn});
  for (std::int64_t e = 0; e < kExperts; ++e) {
    const at::Tensor own = experts.eq(e).nonzero().flatten();
    const at::Tensor weight8 = all8[e];
    expect_close(y.cpu().index_select(0, own), at::matmul(rows8.index_select(0, own), weight8.t()),
                 tolerance_of(on), "y");
    expect_close(dx.cpu().index_select(0, own), at::matmul(grad8.index_select(0, own), weight8),
                 tolerance_of(on), "d x");
  }
}

TEST_P(Fp8ExpertProduct, KnownScalesAndGatheredCodesChangeNoBit) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {kExperts, kOut, kIn}, "weight");
  const TokenPermutation order = two_experts_a_token(on);
  const at::Tensor rows = random_tensor(on, {2 * kTokens, kIn}, "rows");
  const at::Tensor grad = random_tensor(on, {2 * kTokens, kOut}, "grad");
  const at::Tensor y = fp8_expert_forward(rows, {}, weight, order.ends, {});
  const at::Tensor dx = fp8_expert_backward_input(grad, {}, weight, order.ends, {});
  Parameter known = weight;
  const at::Tensor all = weight.value.flatten(0, 1);
  known.fp8_scale = make_fp8_scale(all);
  const at::Tensor codes = fp8_cast(all, known.fp8_scale, {.rows = true}).rows;
  Parameter gathered = known;
  gathered.value = at::full_like(weight.value, std::nan(""));
  gathered.fp8_codes = codes.view(weight.value.sizes());
  for (const Parameter& one : {known, gathered}) {
    EXPECT_TRUE(y.equal(fp8_expert_forward(rows, {}, one, order.ends, {})));
    EXPECT_TRUE(dx.equal(fp8_expert_backward_input(grad, {}, one, order.ends, {})));
  }
}

TEST_P(Fp8ExpertProduct, ExpertsInEightBitsAreNearThoseWithoutThem) {
  const OperatorCase& on = GetParam();
  const Parameter weight = random_parameter(on, {kExperts, 2 * kOut, kIn}, "weight");
  const at::Tensor x = random_tensor(on, {kTokens, kIn}, "x");
  const TokenPermutation order = two_experts_a_token(on);
  const Activation activation{ActivationKind::kSilu, /*gated=*/true};
  const Parameter bias = random_parameter(on, {kExperts, 2 * kOut}, "bias");
  ExpertProjection projection{.weight = &weight, .bias = &bias};
  const ExpertsHidden want = dispatch_forward(x, order, projection, activation);
  projection.in_fp8 = true;
  const ExpertsHidden got = dispatch_forward(x, order, projection, activation);
  EXPECT_FALSE(got.u.equal(want.u));
  const at::Tensor difference = wide_copy(got.u) - wide_copy(want.u);
  // 2^-8 / 3 of both operands' squares (fp8_decoder_test.cpp).
  EXPECT_LT((difference.norm() / wide_copy(want.u).norm()).item<double>(), 0.08);
}

// Measured on an H100 (docs/performance.md).
TEST(Fp8ExpertSizes, WideExpertsAreFasterAndNarrowOnesAreNot) {
  EXPECT_TRUE(fp8_experts_are_faster(4096, 14336, 8, 2));
  EXPECT_FALSE(fp8_experts_are_faster(1024, 3584, 8, 2));
  EXPECT_FALSE(fp8_experts_are_faster(2048, 768, 128, 8));
}

TEST(Fp8ExpertSizes, AreMultiplesOf16) {
  EXPECT_TRUE(fp8_takes_experts({8, 16, 4096}));
  EXPECT_FALSE(fp8_takes_experts({8, 24, 4096}));
  EXPECT_FALSE(fp8_takes_experts({16, 4096}));
}

}  // namespace
}  // namespace packtrain::fp8_expert_product_test
