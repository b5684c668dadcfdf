#include "framework/data/attention_segment.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"

namespace packtrain {
namespace {

// The position of the key of `row`; -1 if it is no key of the segment.
std::int64_t key_position(const AttentionSegment& segment, std::int64_t row) {
  std::int64_t before = 0;
  const auto position_in = [&](const RowRange& range) {
    return row >= range.begin && row < range.end ? before + row - range.begin : -1;
  };
  for (const RowRange& range : segment.prefix) {
    if (const std::int64_t position = position_in(range); position >= 0) return position;
    before += range.size();
  }
  return position_in(segment.rows);
}

}  // namespace

bool AttentionSegment::sees(std::int64_t query, std::int64_t key,
                            const AttentionPattern& pattern) const {
  const std::int64_t position = key_position(*this, key);
  return position >= 0 && pattern.sees(key_position(*this, query), position);
}

AttentionSegment AttentionSegments::operator[](std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  AttentionSegment segment{{boundaries_[i], boundaries_[i + 1]}, {}};
  if (are_sequences()) return segment;
  const auto found = std::ranges::lower_bound(prefixes_, index, {}, &SegmentPrefix::segment);
  if (found != prefixes_.end() && found->segment == index) segment.prefix = found->rows;
  return segment;
}

void AttentionSegments::require_sequences(const char* reader) const {
  if (are_sequences()) return;
  const SegmentPrefix& prefix = prefixes_.front();
  throw Error(
      ErrorCategory::kInternal,
      fmt::format("{}: segment {} sees rows {} to {} of other segments, wanted segments "
                  "that see only their own rows",
                  reader, prefix.segment, prefix.rows.front().begin, prefix.rows.front().end - 1),
      "Give each sequence its own copy of the rows.");
}

}  // namespace packtrain
