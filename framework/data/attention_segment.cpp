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

bool continues(const AttentionSegment& previous, const AttentionSegment& next) {
  const std::size_t num_before = previous.prefix.size();
  return previous.rows.end == next.rows.begin && next.prefix.size() == num_before + 1 &&
         next.prefix.back() == previous.rows &&
         std::ranges::equal(next.prefix.first(num_before), previous.prefix);
}

void SequenceCounts::add(const AttentionSegment& segment) {
  if (segment.rows.size() == 0) return;
  if (continues(previous_, segment)) {
    num_keys_ += segment.rows.size();
  } else {
    ++num_sequences_;
    num_keys_ += segment.num_keys();
  }
  longest_ = std::max(longest_, segment.num_keys());
  has_prefixes_ = has_prefixes_ || !segment.is_sequence();
  previous_ = segment;
}

AttentionSegment AttentionSegments::operator[](std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  AttentionSegment segment{{boundaries_[i], boundaries_[i + 1]}, {}};
  if (are_sequences()) return segment;
  const auto found = std::ranges::lower_bound(prefixes_, index, {}, &SegmentPrefix::segment);
  if (found != prefixes_.end() && found->segment == index) segment.prefix = found->rows;
  return segment;
}

SequenceCounts AttentionSegments::counts() const {
  SequenceCounts counts;
  for (std::int64_t i = 0; i < size(); ++i) counts.add((*this)[i]);
  return counts;
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
