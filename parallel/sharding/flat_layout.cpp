#include "parallel/sharding/flat_layout.h"

#include <algorithm>
#include <utility>

#include "framework/core/math.h"

namespace packtrain {
namespace {

constexpr std::int64_t kSegmentAlignment = 128;  // elements: 256 bytes of bfloat16
constexpr std::int64_t kShardAlignment = 2048;   // elements: 4096 bytes of bfloat16

}  // namespace

FlatLayout make_flat_layout(std::span<const ParameterSpec> parameters, int num_ranks) {
  std::vector<ParameterSpec> ordered(parameters.begin(), parameters.end());
  std::ranges::stable_sort(ordered, {}, &ParameterSpec::group);
  FlatLayout layout;
  std::int64_t end = 0;
  for (ParameterSpec& spec : ordered) {
    const std::int64_t offset = round_up(end, kSegmentAlignment);
    const std::int64_t numel = spec.numel();
    layout.segments.push_back({std::move(spec), offset, numel});
    end = offset + numel;
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

std::vector<GroupRange> group_ranges(const FlatLayout& layout, int rank) {
  const std::int64_t shard_begin = rank * layout.shard_numel;
  const std::int64_t shard_end = shard_begin + layout.shard_numel;
  std::vector<GroupRange> ranges;
  for (std::size_t s = 0; s < layout.segments.size(); ++s) {
    const bool is_last = s + 1 == layout.segments.size();
    const std::int64_t next = is_last ? layout.numel : layout.segments[s + 1].offset;
    const std::int64_t begin = std::max(layout.segments[s].offset, shard_begin);
    const std::int64_t end = std::min(next, shard_end);
    if (begin >= end) continue;
    const OptimizerGroup group = layout.segments[s].spec.group;
    if (ranges.empty() || ranges.back().group != group) {
      ranges.push_back({begin - shard_begin, 0, group});
    }
    ranges.back().numel += end - begin;
  }
  return ranges;
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
