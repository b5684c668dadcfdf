#include "training/checkpoint/hf_rounding.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "models/families/weight_map.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 25;
constexpr std::int64_t kPartsOfParameter = 8;

// Adds equal parts of a parameter, evenly spaced. Adds all of a small parameter.
void add_parts(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t most,
               std::vector<ShardView>& shards) {
  const std::int64_t numel =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t parts = numel <= most ? 1 : kPartsOfParameter;
  const std::int64_t size = numel <= most ? numel : most / parts;
  for (std::int64_t k = 0; k < parts; ++k) {
    const std::int64_t begin = parts == 1 ? 0 : (numel - size) * k / (parts - 1);
    shards.push_back({name, shape, begin, size, true, at::empty({size}, at::kFloat), {}});
  }
}

std::vector<ShardView> sample(const DecoderConfig& config) {
  const auto shapes = parameter_shapes(config);
  const std::int64_t most = std::max(kMaxElements / static_cast<std::int64_t>(shapes.size()),
                                     kPartsOfParameter * kPartsOfParameter);
  std::vector<ShardView> shards;
  for (const auto& [name, shape] : shapes) add_parts(name, shape, most, shards);
  return shards;
}

double sum_of_squares(const at::Tensor& values) {
  return values.to(at::kDouble).square().sum().item<double>();
}

}  // namespace

double rounded_share(const DecoderConfig& config, const ReadWeights& trained,
                     const ReadWeights& start) {
  const std::vector<ShardView> after = sample(config);
  const std::vector<ShardView> before = sample(config);
  trained(after);
  start(before);
  double errors = 0;
  double changes = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const at::Tensor& weight = after[i].weight;
    const at::Tensor change = weight - before[i].weight;
    const at::Tensor error = weight.to(at::kBFloat16).to(at::kFloat) - weight;
    errors += sum_of_squares(error * change.ne(0));
    changes += sum_of_squares(change);
  }
  return changes > 0 ? std::sqrt(errors / changes) : 0;
}

}  // namespace packtrain
