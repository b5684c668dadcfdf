// A shard for tests of AdamW, with numbers of realistic size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "training/optimizers/adamw.h"

namespace packtrain::test {

// The CPU, or what PACKTRAIN_TEST_DEVICE names.
at::Device test_device();

struct ShardOptions {
  std::int64_t numel = 0;
  std::int64_t offset = 0;  // unaligns the addresses
  at::ScalarType grad = at::kFloat;
  at::ScalarType moments = at::kFloat;
};

// The same numbers each time; `weight` undefined.
AdamWTensors make_shard(const ShardOptions& options);
inline AdamWTensors make_shard(std::int64_t numel) {
  return make_shard(ShardOptions{.numel = numel});
}

AdamWTensors slice(const AdamWTensors& tensors, std::int64_t begin, std::int64_t end);
bool all_equal(const AdamWTensors& a, const AdamWTensors& b);  // master and moments, to the bit

AdamWOptions options_of_step(std::int64_t step);  // with weight decay
at::Tensor clip_factor(float value);
at::Tensor skip(int value);

// One range of all elements, with weight decay, nothing skipped.
void adamw_all(const AdamWTensors& tensors, const AdamWOptions& options, float clip = 1.0F);

}  // namespace packtrain::test
