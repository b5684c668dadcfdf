// Which rows of a micro-batch each row sees in attention, before a layer's pattern limits it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "framework/data/attention_pattern.h"

namespace packtrain {

// Rows [begin, end) of a micro-batch.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const RowRange&, const RowRange&) = default;
  std::int64_t size() const { return end - begin; }
};

// Consecutive rows of a micro-batch that see the same keys: those of a prefix, then their own,
// causally. A packed sequence is a segment without a prefix. Positions count the keys from 0.
struct AttentionSegment {
  RowRange rows;                     // queries, and the last of their keys
  std::span<const RowRange> prefix;  // rows of other segments, in the order of their positions

  bool is_sequence() const { return prefix.empty(); }
  // Number of keys before the segment's own rows. It is the position of the first of these.
  std::int64_t num_prefix() const {
    std::int64_t sum = 0;
    for (const RowRange& range : prefix) sum += range.size();
    return sum;
  }
  std::int64_t num_keys() const { return num_prefix() + rows.size(); }
  // True if `query`, a row of the segment, sees the key of row `key` in a layer of this pattern.
  bool sees(std::int64_t query, std::int64_t key, const AttentionPattern& pattern) const;
};

// True if the keys of `next` before its own are those of `previous`, whose rows end where those of
// `next` begin. Both are then one sequence for kernels.
bool continues(const AttentionSegment& previous, const AttentionSegment& next);

// Counts the sequences that kernels for packed sequences make of segments: one that continues the
// one before it is of its sequence. Each sequence has its own keys, which copies those that others
// see too (models/ops/attention/expanded_keys.h).
class SequenceCounts {
 public:
  // In the order of rows. Segments without rows are ignored. A prefix must stay valid until the
  // next call.
  void add(const AttentionSegment& segment);

  std::int64_t num_sequences() const { return num_sequences_; }
  std::int64_t num_keys() const { return num_keys_; }
  std::int64_t longest() const { return longest_; }  // keys of a sequence
  bool has_prefixes() const { return has_prefixes_; }

 private:
  AttentionSegment previous_;
  std::int64_t num_sequences_ = 0;
  std::int64_t num_keys_ = 0;
  std::int64_t longest_ = 0;
  bool has_prefixes_ = false;
};

// The prefix of one of a micro-batch's segments.
struct SegmentPrefix {
  std::int64_t segment = 0;
  std::vector<RowRange> rows;
};

// The segments of a micro-batch: a view of its arrays.
class AttentionSegments {
 public:
  // Segment i has rows boundaries[i] to boundaries[i + 1]. `prefixes` has those that are not empty,
  // in the order of segments.
  AttentionSegments(std::span<const std::int32_t> boundaries,
                    std::span<const SegmentPrefix> prefixes)
      : boundaries_(boundaries), prefixes_(prefixes) {}

  std::int64_t size() const { return static_cast<std::int64_t>(boundaries_.size()) - 1; }
  AttentionSegment operator[](std::int64_t index) const;
  // True if no segment has a prefix. Boundaries alone (cu_seqlens) then describe them.
  bool are_sequences() const { return prefixes_.empty(); }
  SequenceCounts counts() const;
  // Throws Error(kInternal), which names `reader` and the first segment with a prefix, unless
  // are_sequences(). Code that reads boundaries alone calls it.
  void require_sequences(const char* reader) const;

 private:
  std::span<const std::int32_t> boundaries_;
  std::span<const SegmentPrefix> prefixes_;
};

}  // namespace packtrain
