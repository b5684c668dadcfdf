// The norm of a gated product against its formula in float64.
#include "models/ops/gated_norm/product_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/models/cases.h"

namespace packtrain::product_norm_test {
namespace {

class ProductNorm : public testing::TestWithParam<OperatorCase> {};
INSTANTIATE_TEST_SUITE_P(Devices, ProductNorm, testing::ValuesIn(operator_cases()), case_name);

at::Tensor formula(const at::Tensor& x, const at::Tensor& z, const at::Tensor& weight,
                   const ProductNormOptions& options) {
  const std::int64_t rows = x.size(0), width = x.size(1);
  const at::Tensor u = (x * at::silu(z)).view({rows, options.parts, width / options.parts});
  const at::Tensor mean = (u * u).mean(at::IntArrayRef{2}, /*keepdim=*/true);
  return (u * at::rsqrt(mean + options.epsilon)).view({rows, width}) * weight;
}

TEST_P(ProductNorm, IsItsFormula) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t parts : {1, 3}) {
    const ProductNormOptions options{1e-2, parts};
    const at::Tensor x = random_tensor(on, {17, 12}, "x");
    const at::Tensor rows = random_tensor(on, {17, 20}, "rows");
    const at::Tensor z = rows.narrow(1, 4, 12);
    const at::Tensor grad = random_tensor(on, {17, 12}, "d y");
    const Parameter weight = random_parameter(on, {12}, "weight");
    const at::Tensor grad_rows = rows.clone();
    const at::Tensor again = random_tensor(on, {17, 12}, "poison");
    poison_free_memory(on);
    const at::Tensor y = product_norm_forward(x, z, weight, options);
    const at::Tensor dx =
        product_norm_backward(grad, x, z, weight, options, grad_rows.narrow(1, 4, 12), again);
    const std::vector<at::Tensor> leaves = {reference_leaf(x), reference_leaf(z),
                                            reference_leaf(weight.value)};
    const at::Tensor want = formula(leaves[0], leaves[1], leaves[2], options);
    expect_close(y, want.detach(), on.tolerance, "y");
    EXPECT_TRUE(again.equal(y));
    const auto grads = torch::autograd::grad({want}, leaves, {wide_copy(grad)});
    expect_close(dx, grads[0], on.tolerance, "d x");
    expect_close(grad_rows.narrow(1, 4, 12), grads[1], on.tolerance, "d z");
    expect_close(weight.grad, grads[2], on.tolerance, "d w");
    EXPECT_TRUE(grad_rows.narrow(1, 0, 4).equal(rows.narrow(1, 0, 4)));
  }
}

TEST_P(ProductNorm, PartsThatDoNotDivideARowAreRefused) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {17, 12}, "x");
  const Parameter weight = random_parameter(on, {12}, "weight");
  const Error error = test::error_of([&] { product_norm_forward(x, x, weight, {1e-6, 5}); });
  EXPECT_NE(error.message().find("5 parts"), std::string::npos) << error.message();
}

}  // namespace
}  // namespace packtrain::product_norm_test
