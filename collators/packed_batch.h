// PackedBatch: a micro-batch as flat arrays with the segments of attention, in one host buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/data/attention_segment.h"
#include "samplers/plan.h"

namespace packtrain {

constexpr std::int32_t kNoLabel = -100;  // PyTorch's ignore_index

// All spans point into `bytes`, in this order. Each starts at a multiple of 256 bytes from the
// begin of `bytes`, so that one copy moves the batch to the device. Labels are already shifted:
// labels[t] is the next token of the same example where its loss mask is set, else -100. The type
// is move only, because a copy's spans would point into the original.
struct PackedBatch {
  PackedBatch() = default;
  PackedBatch(PackedBatch&&) = default;
  PackedBatch& operator=(PackedBatch&&) = default;
  PackedBatch(const PackedBatch&) = delete;
  PackedBatch& operator=(const PackedBatch&) = delete;
  ~PackedBatch() = default;

  std::vector<std::byte> storage;        // used when the caller gives no memory
  std::span<std::byte> bytes;            // the whole buffer
  std::span<std::int32_t> input_ids;     // [num_tokens], padding included
  std::span<std::int32_t> labels;        // [num_tokens], -100 = not supervised
  std::span<std::int32_t> position_ids;  // [num_tokens], restart with each segment
  std::span<std::int32_t> cu_seqlens;    // [num_segments + 1] their first rows, the dummy included
  std::span<std::int32_t> loss_index;    // [num_loss_tokens] rows with a label, ascending
  std::span<float> loss_weight;          // [num_loss_tokens] factor of each row's loss
  std::span<std::int32_t> loss_source;   // [num_loss_tokens] its source in the store, or empty
  // [num_loss_tokens] weight of each row's mask byte, a factor of loss_weight. Empty: all 1.
  std::span<float> token_weight;
  // [num_tokens] random bits of (seed, step, example, position in the example), or empty. The masks
  // of dropout are made of them, so that they do not depend on the packing. Padding has 0.
  std::span<std::int32_t> row_seeds;
  // [num_loss_tokens] random bits of (seed, step, example, position in the example), or empty.
  // Labels are sampled with them (models/ops/linear_cross_entropy/sample_labels.h).
  std::span<std::int64_t> sample_seeds;
  std::span<std::int32_t> examples;  // [2, pieces] first row and end row of each piece
  // Where several adapters are trained together: [adapters + 1] the first row of each, and the
  // first of its supervised rows in loss_index. The last ones are the ends. Else empty.
  std::span<std::int32_t> adapter_rows;
  std::span<std::int32_t> adapter_loss_rows;
  // Of groups that an objective reads, else empty (models/block/group_rows.h). E examples, without
  // prefixes.
  bool has_groups = false;
  std::span<std::int64_t> group_num_rows;  // [E]
  std::span<std::int32_t> group_roles;     // [E]
  std::span<float> group_weights;          // [E]
  std::span<float> group_margins;          // [E] or empty
  std::span<float> reference;              // [num_loss_tokens] or empty
  std::span<float> token_columns;          // [columns, num_loss_tokens] or empty
  std::vector<std::string> column_names;   // of these, as in the store
  std::vector<SegmentPrefix> prefixes;     // of segments that have one, in their order
  std::int32_t max_seqlen = 0;       // keys of a segment, at most; the dummy sequence included
  std::int64_t num_real_tokens = 0;  // without the dummy sequence
  std::vector<Piece> pieces;         // where the real tokens came from
  // [pieces] The number of rows of each piece in loss_index, in this order.
  std::vector<std::int32_t> num_piece_labels;

  // Valid as long as the batch.
  AttentionSegments segments() const { return {cu_seqlens, prefixes}; }
};

}  // namespace packtrain
