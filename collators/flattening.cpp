#include "collators/flattening.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace packtrain {

PackedBatch flatten(const TokenStore& store, const MicroBatch& pieces,
                    const LossNormalization& normalization, const CollatorOptions& options,
                    const HostAllocator& allocate) {
  std::vector<SegmentRun> segments;
  segments.reserve(pieces.size());
  for_each_segment(pieces, [&](std::span<const Piece> run, const AttentionSegment& segment) {
    segments.push_back({run.size(), segment.rows, {segment.prefix.begin(), segment.prefix.end()}});
  });
  return build_batch(store, pieces, segments, normalization, options, allocate);
}

std::vector<std::int32_t> boundaries_from_position_ids(std::span<const std::int32_t> position_ids) {
  if (!position_ids.empty() && position_ids.front() != 0) {
    throw Error(ErrorCategory::kData, fmt::format("position_ids start with {}, a sequence starts "
                                                  "with 0",
                                                  position_ids.front()));
  }
  std::vector<std::int32_t> boundaries;
  for (std::size_t row = 0; row < position_ids.size(); ++row) {
    if (position_ids[row] == 0) boundaries.push_back(static_cast<std::int32_t>(row));
  }
  boundaries.push_back(static_cast<std::int32_t>(position_ids.size()));
  return boundaries;
}

}  // namespace packtrain
