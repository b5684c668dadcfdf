// What ranks own of a weight in 8-bit floats, encoded apart and gathered.
#include "training/checkpoint/encode_shard.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "framework/core/random.h"
#include "models/block/encoded_layout.h"
#include "models/ops/encoded_weight.h"
#include "models/ops/random_normal/random_normal.h"
#include "parallel/sharding/flat_layout.h"

namespace packtrain::encode_shard_test {
namespace {

constexpr ParameterEncoding kFp8{DataType::kFloat32, ParameterEncoding::Format::kFp8};

// The codes end 16 bytes before a page, and the scale at it.
ParameterSpec weight_of(std::int64_t rows) {
  return {.name = "w", .shape = {rows, 16}, .encoding = kFp8};
}

at::Tensor values_of(const ParameterSpec& spec) {
  at::Tensor values = at::empty({spec.numel()}, at::kFloat);
  random_normal(values, CounterRandom(1, spec.name), 0, 0.02);
  values[-1] = 3.0;  // the last rank has the largest one
  return values;
}

// The parameter's bytes after each rank has encoded its own and all were gathered.
at::Tensor gathered(const ParameterSpec& spec, const at::Tensor& values, int num_ranks) {
  const FlatLayout layout = make_flat_layout(std::vector{spec}, num_ranks);
  std::vector<at::Tensor> bytes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const OwnedRange owned = owned_range(layout, layout.segments.front(), rank);
    ShardView shard{.parameter = spec.name,
                    .shape = stored_shape(spec),
                    .begin = owned.parameter_begin,
                    .numel = owned.numel,
                    .weight = at::full({owned.numel}, 0x55, at::kByte)};
    shard.encoded_ranges = encoded_ranges(spec);
    shard.format = spec.encoding.format;
    if (shard.numel == 0) continue;
    encode_shard(shard, [&](std::int64_t begin, std::int64_t numel) {
      return values.narrow(0, begin, numel);
    });
    bytes.push_back(shard.weight);
  }
  return at::cat(bytes);
}

TEST(EncodeShard, RanksHaveTheBytesOfOne) {
  for (const std::int64_t rows : {255, 256, 257, 511, 4000}) {
    const ParameterSpec spec = weight_of(rows);
    const at::Tensor values = values_of(spec);
    const at::Tensor alone = gathered(spec, values, 1);
    EXPECT_EQ(alone.numel(), spec.numel() + 16);
    for (const int num_ranks : {2, 3, 7}) {
      EXPECT_TRUE(gathered(spec, values, num_ranks).equal(alone)) << rows << " " << num_ranks;
    }
  }
}

TEST(EncodeShard, DecodedValuesAreWithinHalfAStep) {
  const ParameterSpec spec = weight_of(511);
  const at::Tensor values = values_of(spec);
  const at::Tensor decoded = at::empty({spec.numel()}, at::kFloat);
  decode({gathered(spec, values, 2), encoded_ranges(spec), spec.encoding.format}, decoded);
  // 3 bits of mantissa; below 2^-6 of the range steps have one size. The largest value is 3.
  EXPECT_TRUE(((decoded - values).abs() <= values.abs() * 0x1p-4 + 3 * 0x1p-18).all().item<bool>());
  EXPECT_EQ(decoded[-1].item<float>(), 3.0F);
}

}  // namespace
}  // namespace packtrain::encode_shard_test
