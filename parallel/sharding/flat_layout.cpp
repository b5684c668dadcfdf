#include "parallel/sharding/flat_layout.h"

#include <algorithm>

#include "framework/core/math.h"

namespace packtrain {
namespace {

constexpr std::int64_t kSegmentAlignment = 128;  // elements: 256 bytes of bfloat16
constexpr std::int64_t kShardAlignment = 2048;   // elements: 4096 bytes of bfloat16

}  // namespace

FlatLayout make_flat_layout(std::span<const ParameterSpec> parameters, int num_ranks) {
  FlatLayout layout;
  std::int64_t end = 0;
  for (const bool decay : {true, false}) {
    for (const ParameterSpec& spec : parameters) {
      if (spec.decay != decay) continue;
      const std::int64_t offset = round_up(end, kSegmentAlignment);
      layout.segments.push_back({spec, offset, spec.numel()});
      end = offset + spec.numel();
    }
  }
  layout.shard_numel = round_up((end + num_ranks - 1) / num_ranks, kShardAlignment);
  layout.numel = layout.shard_numel * num_ranks;
  return layout;
}

std::int64_t numel_without_padding(const FlatLayout& layout) {
  if (layout.empty()) return 0;
  const Segment& last = layout.segments.back();
  return round_up(last.offset + last.numel, kSegmentAlignment);
}

std::vector<DecayRange> decay_ranges(const FlatLayout& layout, int rank) {
  std::int64_t split = 0;  // end of the decayed parameters in the whole buffer
  for (const Segment& segment : layout.segments) {
    if (segment.spec.decay) split = round_up(segment.offset + segment.numel, kSegmentAlignment);
  }
  const std::int64_t begin = rank * layout.shard_numel;
  const std::int64_t cut = std::clamp(split - begin, std::int64_t{0}, layout.shard_numel);
  std::vector<DecayRange> runs;
  if (cut > 0) runs.push_back({0, cut, true});
  if (cut < layout.shard_numel) runs.push_back({cut, layout.shard_numel - cut, false});
  return runs;
}

OwnedRange owned_range(const FlatLayout& layout, const Segment& segment, int rank) {
  const std::int64_t shard_begin = rank * layout.shard_numel;
  const std::int64_t begin = std::max(segment.offset, shard_begin);
  const std::int64_t end =
      std::min(segment.offset + segment.numel, shard_begin + layout.shard_numel);
  if (begin >= end) return {};
  return {begin - segment.offset, begin - shard_begin, end - begin};
}

}  // namespace packtrain
