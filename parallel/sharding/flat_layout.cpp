#include "parallel/sharding/flat_layout.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "framework/core/math.h"
#include "models/block/encoded_layout.h"
#include "parallel/sharding/optimizer_state.h"

namespace packtrain {
namespace {

constexpr std::int64_t kParameterBytes = 256;
constexpr std::int64_t kShardBytes = 4096;

// Elements that fill `size_bytes` in the encoding. Gradients have the layout of the weights and may
// be bfloat16, so they must fill as many bytes.
std::int64_t alignment(const FlatLayout& layout, std::int64_t size_bytes) {
  if (layout.encoding.format == ParameterEncoding::Format::kNf4) {
    return std::lcm(kNf4GroupBytes, size_bytes);  // frozen: there is no gradient
  }
  const std::size_t smallest =
      std::min(size_of(layout.gathered_type), size_of(DataType::kBFloat16));
  return size_bytes / static_cast<std::int64_t>(smallest);
}

// `has_blocks`: the optimizer has state for blocks of elements, which no rank then cuts. Parameters
// begin at every second block, because replicas compare their state in words of 8 bytes.
std::int64_t parameter_alignment(const FlatLayout& layout, bool has_blocks) {
  if (layout.encoding.format == ParameterEncoding::Format::kNf4) return kNf4GroupBytes;
  const std::int64_t aligned = alignment(layout, kParameterBytes);
  return has_blocks ? std::lcm(aligned, 2 * kStateBlock) : aligned;
}

bool has_block_state(const ParameterSpec& spec) {
  return spec.trainable && spec.block_state;
}

}  // namespace

FlatLayout make_flat_layout(std::span<const ParameterSpec> parameters, int num_ranks) {
  std::vector<ParameterSpec> ordered(parameters.begin(), parameters.end());
  std::ranges::stable_sort(ordered, {}, [](const ParameterSpec& spec) {
    return std::tuple(spec.group, spec.adapter, spec.optimizer);
  });
  FlatLayout layout;
  layout.encoding = parameters.front().encoding;
  layout.gathered_type = gathered_type(parameters.front());
  const std::int64_t aligned =
      parameter_alignment(layout, std::ranges::any_of(ordered, has_block_state));
  std::int64_t end = 0;
  for (ParameterSpec& spec : ordered) {
    const std::int64_t offset = round_up(end, aligned);
    const std::int64_t numel = stored_numel(spec);
    layout.segments.push_back({std::move(spec), offset, numel});
    end = offset + numel;
  }
  layout.shard_numel = round_up((end + num_ranks - 1) / num_ranks, alignment(layout, kShardBytes));
  layout.numel = layout.shard_numel * num_ranks;
  return layout;
}

std::int64_t numel_without_padding(const FlatLayout& layout) {
  const Segment& last = layout.segments.back();
  const bool has_blocks = std::ranges::any_of(layout.segments, has_block_state, &Segment::spec);
  return round_up(last.offset + last.numel, parameter_alignment(layout, has_blocks));
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
    const auto& [spec, offset, numel, scale] = layout.segments[s];
    if (ranges.empty() || ranges.back().group != spec.group ||
        ranges.back().adapter != spec.adapter || ranges.back().scale != scale ||
        ranges.back().optimizer != spec.optimizer) {
      ranges.push_back({begin - shard_begin, 0, spec.group, spec.adapter, scale, spec.optimizer});
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
