// The NF4 groups that ranks own, quantised apart and gathered.
#include "training/checkpoint/owned_groups.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/random.h"
#include "models/block/encoded_layout.h"
#include "models/ops/nf4/nf4.h"
#include "models/ops/random_normal/random_normal.h"
#include "parallel/sharding/flat_layout.h"

namespace packtrain::owned_groups_test {
namespace {

constexpr ParameterEncoding kNf4{DataType::kFloat32, ParameterEncoding::Format::kNf4};
constexpr std::int64_t kColumns = 256;

// Three tensors, each of some groups and a part of one. A shard of two ranks divides them.
ParameterSpec fused_weight() {
  const std::vector<ParameterPart> parts = {{"q", 0, 2500}, {"k", 2500, 1300}, {"v", 3800, 1500}};
  return {.name = "qkv", .shape = {5300, kColumns}, .encoding = kNf4, .parts = parts};
}

at::Tensor values_of(const ParameterSpec& spec) {
  at::Tensor values = at::empty({spec.numel()}, at::kFloat);
  random_normal(values, CounterRandom(1, spec.name), 0, 0.02);
  return values;
}

ShardView shard_of(const FlatLayout& layout, int rank) {
  const Segment& segment = layout.segments.front();
  const OwnedRange owned = owned_range(layout, segment, rank);
  ShardView shard{.parameter = segment.spec.name,
                  .shape = stored_shape(segment.spec),
                  .begin = owned.parameter_begin,
                  .numel = owned.numel,
                  .weight = at::zeros({owned.numel}, at::kByte)};
  shard.encoded_ranges = encoded_ranges(segment.spec);
  return shard;
}

// The parameter's bytes after each rank has quantised its own and all were gathered.
at::Tensor gathered(const ParameterSpec& spec, const at::Tensor& values, int num_ranks) {
  const FlatLayout layout = make_flat_layout(std::vector{spec}, num_ranks);
  std::vector<at::Tensor> bytes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const ShardView shard = shard_of(layout, rank);
    for (const OwnedGroups& owned : owned_groups(shard)) {
      const auto read = [&](std::int64_t begin, std::int64_t numel) {
        return values.narrow(0, owned.range.begin + begin, numel);
      };
      nf4_quantize_tensor(owned.range.numel, owned.first_group, owned.groups, read);
    }
    bytes.push_back(shard.weight);
  }
  return at::cat(bytes);
}

TEST(OwnedGroups, OfSeveralRanksAreTheBytesOfOne) {
  const ParameterSpec spec = fused_weight();
  const at::Tensor values = values_of(spec);
  const at::Tensor alone = gathered(spec, values, 1);
  EXPECT_EQ(alone.numel(), stored_numel(spec));
  for (const int num_ranks : {2, 3}) {
    EXPECT_TRUE(gathered(spec, values, num_ranks).equal(alone)) << num_ranks;
  }
}

TEST(OwnedGroups, OfEachTensorDecodeToItsRows) {
  const ParameterSpec spec = fused_weight();
  const at::Tensor values = values_of(spec);
  const at::Tensor decoded = at::empty({spec.numel()}, at::kFloat);
  nf4_decode({gathered(spec, values, 2), encoded_ranges(spec)}, decoded);
  // The codes of standard normal numbers are closer than this.
  EXPECT_LT((decoded - values).abs().max().item<float>(), 0.02F);
  EXPECT_LT((decoded - values).square().mean().item<float>(), 0.012F * 0.02F * 0.02F);
}

TEST(OwnedGroups, OfATensorHaveItsOwnOffset) {
  const ParameterSpec spec = fused_weight();
  const at::Tensor values = values_of(spec);
  values.narrow(0, 2500 * kColumns, 1300 * kColumns).mul_(10);
  const at::Tensor bytes = gathered(spec, values, 1);
  const auto offset = [&](std::int64_t group) {
    return bytes.narrow(0, group * kNf4GroupBytes, 8).view(at::kFloat)[1].item<float>();
  };
  const std::int64_t of_q = num_nf4_groups(2500 * kColumns);
  EXPECT_EQ(offset(0), offset(of_q - 1));
  EXPECT_GT(offset(of_q), 5 * offset(0));
}

}  // namespace
}  // namespace packtrain::owned_groups_test
