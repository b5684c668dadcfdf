#include "tests/training/optimizers/shard.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <cstdlib>
#include <vector>

#include "framework/core/random.h"

namespace packtrain::test {
namespace {

at::Tensor random(const char* name, const ShardOptions& options, double scale) {
  const CounterRandom numbers(11, name);
  at::Tensor buffer = at::empty({options.numel + options.offset}, at::kFloat);
  auto* data = buffer.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < buffer.numel(); ++i) {
    data[i] = static_cast<float>(scale * numbers.normal(static_cast<std::uint64_t>(i)));
  }
  return buffer;
}

}  // namespace

at::Device test_device() {
  const char* name = std::getenv("PACKTRAIN_TEST_DEVICE");
  return at::Device(name == nullptr ? "cpu" : name);
}

AdamWTensors make_shard(const ShardOptions& options) {
  const auto place = [&](const at::Tensor& buffer, at::ScalarType type) {
    return buffer.to(test_device(), type).slice(0, options.offset);
  };
  AdamWTensors shard;
  shard.master = place(random("master", options, 0.05), at::kFloat);
  shard.grad = place(random("grad", options, 0.3), options.grad);
  shard.exp_avg = place(random("exp_avg", options, 0.02), options.moments);
  shard.exp_avg_sq = place(random("exp_avg_sq", options, 0.03).square_(), options.moments);
  return shard;
}

AdamWTensors slice(const AdamWTensors& tensors, std::int64_t begin, std::int64_t end) {
  const auto part = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.slice(0, begin, end) : tensor;
  };
  return {part(tensors.master), part(tensors.grad), part(tensors.exp_avg), part(tensors.exp_avg_sq),
          part(tensors.weight)};
}

bool all_equal(const AdamWTensors& a, const AdamWTensors& b) {
  return at::equal(a.master, b.master) && at::equal(a.exp_avg, b.exp_avg) &&
         at::equal(a.exp_avg_sq, b.exp_avg_sq);
}

AdamWOptions options_of_step(std::int64_t step) {
  AdamWOptions options;
  options.learning_rate = 3e-3;
  options.weight_decay = {0.1, 0};
  options.step = step;
  options.seed = 0x123456789ABCDEF0;
  return options;
}

at::Tensor clip_factor(float value) {
  return at::full({}, value, at::TensorOptions(at::kFloat).device(test_device()));
}

at::Tensor skip(int value) {
  return at::full({}, value, at::TensorOptions(at::kByte).device(test_device()));
}

void adamw_all(const AdamWTensors& tensors, const AdamWOptions& options, float clip) {
  const std::vector<ShardRange> ranges = {{.begin = 0, .numel = tensors.master.numel()}};
  adamw(tensors, ranges, options, clip_factor(clip), skip(0));
}

}  // namespace packtrain::test
