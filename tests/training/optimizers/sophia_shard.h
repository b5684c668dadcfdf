// A shard for tests of Sophia.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tests/training/optimizers/shard.h"
#include "training/optimizers/sophia.h"

namespace packtrain::test {

inline constexpr double kTokens = 4096;  // B

inline SophiaOptions sophia_options(std::int64_t step) {
  SophiaOptions options;
  options.learning_rate = 3e-3;
  options.weight_decay = {0.2, 0};
  options.step = step;
  options.seed = 0x123456789ABCDEF0;
  return options;
}

inline SophiaTensors sophia_shard(const ShardOptions& options) {
  const AdamWTensors like = make_shard(options);
  // Of a size at which some elements are clipped and others are not.
  return {like.master, like.grad, like.exp_avg, like.exp_avg_sq.mul(200), {}};
}

inline std::vector<ShardRange> one_range(std::int64_t numel) {
  return {{.begin = 0, .numel = numel}};
}

inline at::Tensor wide(const at::Tensor& tensor) {
  return tensor.to(at::kCPU, at::kDouble);
}

}  // namespace packtrain::test
