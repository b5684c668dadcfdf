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

// Widths of vectors and of single elements, of one run and of several, with more rows than blocks
// of threads.
TEST_P(ProductNorm, IsItsFormulaForEveryWidth) {
  const OperatorCase& on = GetParam();
  struct Size {
    std::int64_t rows, width, parts;
  };
  for (const Size& size : {Size{700, 4096, 8},
                           {3, 4096, 1},
                           {300, 8192, 1},
                           {2, 16384, 1},
                           {5, 1027, 1},
                           {3, 9001, 1},
                           {1, 8, 1}}) {
    const ProductNormOptions options{1e-5, size.parts};
    const at::Tensor x = random_tensor(on, {size.rows, size.width}, "x");
    const at::Tensor z = random_tensor(on, {size.rows, size.width}, "z");
    const at::Tensor grad = random_tensor(on, {size.rows, size.width}, "d y");
    const Parameter weight = random_parameter(on, {size.width}, "weight");
    const at::Tensor grad_z = random_tensor(on, {size.rows, size.width}, "poison");
    poison_free_memory(on);
    const at::Tensor y = product_norm_forward(x, z, weight, options);
    const at::Tensor dx = product_norm_backward(grad, x, z, weight, options, grad_z);
    const std::vector<at::Tensor> leaves = {reference_leaf(x), reference_leaf(z),
                                            reference_leaf(weight.value)};
    const at::Tensor want = formula(leaves[0], leaves[1], leaves[2], options);
    const auto grads = torch::autograd::grad({want}, leaves, {wide_copy(grad)});
    const std::string of = " of width " + std::to_string(size.width);
    expect_close(y, want.detach(), on.tolerance, "y" + of);
    expect_close(dx, grads[0], on.tolerance, "d x" + of);
    expect_close(grad_z, grads[1], on.tolerance, "d z" + of);
    expect_close(weight.grad, grads[2], on.tolerance, "d w" + of);
  }
}

TEST_P(ProductNorm, WithoutANormIsTheGatedProduct) {
  const OperatorCase& on = GetParam();
  for (const std::int64_t width : {12, 1536, 4096}) {
    const at::Tensor x = random_tensor(on, {700, width}, "x");
    const at::Tensor rows = random_tensor(on, {700, width + 4}, "rows");
    const at::Tensor z = rows.narrow(1, 4, width);
    const at::Tensor grad = random_tensor(on, {700, width}, "d y");
    const at::Tensor grad_rows = rows.clone();
    poison_free_memory(on);
    const at::Tensor y = gated_product_forward(x, z);
    const at::Tensor dx = gated_product_backward(grad, x, z, grad_rows.narrow(1, 4, width));
    const std::vector<at::Tensor> leaves = {reference_leaf(x), reference_leaf(z)};
    const at::Tensor want = leaves[0] * at::silu(leaves[1]);
    const auto grads = torch::autograd::grad({want}, leaves, {wide_copy(grad)});
    expect_close(y, want.detach(), on.tolerance, "y");
    expect_close(dx, grads[0], on.tolerance, "d x");
    expect_close(grad_rows.narrow(1, 4, width), grads[1], on.tolerance, "d z");
    EXPECT_TRUE(grad_rows.narrow(1, 0, 4).equal(rows.narrow(1, 0, 4)));
  }
}

TEST_P(ProductNorm, WithoutRowsHasAGradientOfZeros) {
  const OperatorCase& on = GetParam();
  const at::Tensor x = random_tensor(on, {0, 12}, "x");
  const Parameter weight = random_parameter(on, {12}, "weight");
  product_norm_backward(x, x, x, weight, {1e-5, 1}, x.clone());
  EXPECT_EQ(weight.grad.abs().max().item<double>(), 0);
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
