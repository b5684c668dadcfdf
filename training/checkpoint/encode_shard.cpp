#include "training/checkpoint/encode_shard.h"

#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "models/block/fp8_bytes.h"
#include "models/ops/fp8/fp8_stored.h"
#include "models/ops/nf4/nf4.h"
#include "training/checkpoint/owned_groups.h"

namespace packtrain {
namespace {

constexpr std::int64_t kValuesAtOnce = std::int64_t{1} << 26;

// Calls use(begin, values) for all elements in [begin, end).
template <class Use>
void for_each_part(std::int64_t begin, std::int64_t end, const ReadParameter& read,
                   const Use& use) {
  for (; begin < end; begin += kValuesAtOnce) {
    use(begin, read(begin, std::min(kValuesAtOnce, end - begin)));
  }
}

// The bits of a number that is not finite are above all others.
float amax_of(std::int64_t numel, const ReadParameter& read) {
  at::Tensor amax = at::zeros({}, at::kFloat);
  for_each_part(0, numel, read, [&](std::int64_t /*begin*/, const at::Tensor& values) {
    amax = at::maximum(amax, values.abs().max().cpu());
  });
  return amax.item<float>();
}

void encode_in_fp8(const ShardView& shard, const ReadParameter& read) {
  const std::int64_t numel = shard.encoded_ranges.front().numel;
  const at::Tensor scale = fp8_scale_of(amax_of(numel, read));
  const at::Tensor on_device = scale.to(shard.weight.device());
  const std::int64_t end = std::min(numel, shard.begin + shard.numel);
  for_each_part(shard.begin, end, read, [&](std::int64_t begin, const at::Tensor& values) {
    shard.weight.narrow(0, begin - shard.begin, values.numel())
        .copy_(fp8_codes_of(values, on_device));
  });
  at::Tensor tail = at::zeros({kFp8ScaleBytes}, at::kByte);
  tail.narrow(0, 0, scale.numel() * scale.element_size()).copy_(scale.view(at::kByte));
  const std::int64_t first = std::max(shard.begin, numel);
  const std::int64_t count = shard.begin + shard.numel - first;
  if (count <= 0) return;
  shard.weight.narrow(0, first - shard.begin, count).copy_(tail.narrow(0, first - numel, count));
}

}  // namespace

void encode_shard(const ShardView& shard, const ReadParameter& read) {
  if (shard.format == ParameterEncoding::Format::kFp8) return encode_in_fp8(shard, read);
  for (const OwnedGroups& owned : owned_groups(shard)) {
    nf4_quantize_tensor(owned.range.numel, owned.first_group, owned.groups,
                        [&](std::int64_t begin, std::int64_t numel) {
                          return read(owned.range.begin + begin, numel);
                        });
  }
}

}  // namespace packtrain
