#include "benchmarks/matmul_race/products.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>

namespace packtrain {
namespace {

at::TensorOptions options() {
  return at::TensorOptions().dtype(at::kBFloat16).device(at::kCUDA);
}

at::Tensor random_matrix(std::int64_t rows, std::int64_t columns, double scale) {
  return at::randn({rows, columns}, options()).mul_(scale);
}

GemmMatrix plain(const at::Tensor& x) {
  return {x.const_data_ptr(), x.size(1), false, DataType::kBFloat16};
}

GemmMatrix transposed(const at::Tensor& x) {
  return {x.const_data_ptr(), x.size(1), true, DataType::kBFloat16};
}

Product product(std::string name, const GemmMatrix& left, const GemmMatrix& right,
                std::int64_t inner, const at::Tensor& out, std::vector<at::Tensor> operands) {
  GemmCall call;
  call.left = left;
  call.right = right;
  call.out = plain(out);
  call.rows = out.size(0);
  call.columns = out.size(1);
  call.inner = inner;
  call.sums_tokens = left.transposed;
  operands.push_back(out);
  return {std::move(name), call, std::move(operands)};
}

void add_linear(std::vector<Product>& products, const std::string& name, std::int64_t tokens,
                std::int64_t in, std::int64_t out) {
  const at::Tensor x = random_matrix(tokens, in, 1.0);
  const at::Tensor weight = random_matrix(out, in, 0.02);
  const at::Tensor grad = random_matrix(tokens, out, 0.01);
  products.push_back(product(name, plain(x), transposed(weight), in,
                             at::empty({tokens, out}, options()), {x, weight}));
  products.push_back(product(name + ", input's gradient", plain(grad), plain(weight), out,
                             at::empty({tokens, in}, options()), {grad, weight}));
  products.push_back(product(name + ", weight's gradient", transposed(grad), plain(x), tokens,
                             at::empty({out, in}, options()), {grad, x}));
}

}  // namespace

std::vector<Product> layer_products(const LayerShape& shape) {
  std::vector<Product> products;
  add_linear(products, "qkv", shape.tokens, shape.hidden, shape.qkv);
  add_linear(products, "attention output", shape.tokens, shape.hidden, shape.hidden);
  add_linear(products, "gate and up", shape.tokens, shape.hidden, 2 * shape.mlp);
  add_linear(products, "down", shape.tokens, shape.mlp, shape.hidden);
  return products;
}

}  // namespace packtrain
