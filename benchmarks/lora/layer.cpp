#include "benchmarks/lora/layer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>

namespace packtrain {
namespace {

constexpr int kNumWeights = 4;
constexpr double kScale = 2;

at::TensorOptions options(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(at::kCUDA);
}

at::Tensor random_matrix(std::int64_t rows, std::int64_t columns, double scale) {
  return at::randn({rows, columns}, options(at::kBFloat16)).mul_(scale);
}

Parameter trained(std::int64_t rows, std::int64_t columns) {
  return {random_matrix(rows, columns, 0.02), at::empty({rows, columns}, options(at::kFloat))};
}

LoraLinear linear_of(std::string name, const AdaptedLayerShape& shape, std::int64_t in,
                     const std::vector<std::int64_t>& outs, bool has_residual) {
  LoraLinear linear;
  linear.name = std::move(name);
  std::int64_t out = 0;
  for (const std::int64_t rows : outs) {
    linear.modules.push_back({linear.name, out, rows, shape.rank, kScale});
    linear.b.push_back(trained(rows, shape.rank));
    out += rows;
  }
  for (int i = 0; i < kNumWeights; ++i) {
    linear.weights.push_back({random_matrix(out, in, 0.02), {}});
  }
  const std::int64_t low = total_rank(linear.modules);
  linear.a = trained(low, in);
  linear.x = random_matrix(shape.tokens, in, 1);
  linear.s = random_matrix(shape.tokens, low, 1);
  if (has_residual) linear.residual = random_matrix(shape.tokens, out, 1);
  linear.grad_output = random_matrix(shape.tokens, out, 1);
  linear.grad_low_rank = random_matrix(shape.tokens, low, 1);
  return linear;
}

}  // namespace

std::vector<const Parameter*> LoraLinear::b_of() const {
  std::vector<const Parameter*> pointers;
  for (const Parameter& parameter : b) pointers.push_back(&parameter);
  return pointers;
}

double LoraLinear::flops() const {
  return 2.0 * static_cast<double>(x.size(0)) * static_cast<double>(weights.front().value.numel());
}

std::vector<LoraLinear> lora_layer(const AdaptedLayerShape& shape) {
  std::vector<LoraLinear> layer;
  layer.push_back(linear_of("qkv", shape, shape.hidden, {shape.hidden, shape.kv, shape.kv}, false));
  layer.push_back(linear_of("o", shape, shape.hidden, {shape.hidden}, true));
  layer.push_back(linear_of("gate_up", shape, shape.hidden, {shape.mlp, shape.mlp}, false));
  layer.push_back(linear_of("down", shape, shape.mlp, {shape.hidden}, true));
  return layer;
}

}  // namespace packtrain
