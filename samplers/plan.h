// The step plan: the examples of each rank and micro-batch of an optimizer step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "framework/data/attention_segment.h"

namespace packtrain {

// Consecutive tokens of one example: the whole example unless a policy cut it.
struct Piece {
  std::int64_t example = 0;  // index in the token store
  std::int32_t begin = 0;    // first token
  std::int32_t length = 0;   // tokens
  // True when the next token belongs to a following piece of the same example. The last token then
  // keeps its label, so that a split example trains as many labels as a whole one. False for the
  // last piece and for a truncated example, whose removed tokens are no labels.
  bool continues = false;
  // One segment with the previous piece: attention includes that piece and positions continue.
  bool joined = false;
  // The tokens that the examples of a group share are a piece of its own. The pieces after it with
  // `after_prefix` see its rows, and their positions continue it. They are in its micro-batch.
  bool is_prefix = false;
  bool after_prefix = false;

  friend bool operator==(const Piece&, const Piece&) = default;
};

using MicroBatch = std::vector<Piece>;  // may be empty: the rank runs a dummy sequence

// Calls visit(std::span<const Piece>, const AttentionSegment&) for each segment of `pieces`, in
// their order. A segment is a piece with those joined to it. Its rows are those of the pieces one
// after another without padding.
template <typename Visit>
void for_each_segment(std::span<const Piece> pieces, Visit&& visit) {
  AttentionSegment segment;
  for (std::size_t begin = 0; begin < pieces.size();) {
    segment.rows = {segment.rows.end, segment.rows.end + pieces[begin].length};
    std::size_t end = begin + 1;
    for (; end < pieces.size() && pieces[end].joined; ++end) {
      segment.rows.end += pieces[end].length;
    }
    visit(pieces.subspan(begin, end - begin), std::as_const(segment));
    begin = end;
  }
}

// [rank][micro-batch]; every rank has the same number of micro-batches.
using Assignment = std::vector<std::vector<MicroBatch>>;

// Counts of a step over all ranks, so the loss denominator needs no all-reduce.
struct StepCounts {
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  // The same counts with weights: each example times its loss weight, each supervised token also
  // times the weight of its mask byte. Without weights they equal num_examples and num_loss_tokens.
  double example_weight = 0;     // sum over examples
  double loss_token_weight = 0;  // sum over supervised tokens
};

// The step of one adapter, of several that are trained together. Its examples are numbered from
// first_example on, up to those of the next part.
struct StepPart {
  std::int64_t first_example = 0;
  StepCounts counts;  // zeros: the adapter has no step
};

// The index of the part that has the example.
inline std::size_t part_of(std::span<const StepPart> parts, std::int64_t example) {
  const auto after = std::ranges::upper_bound(parts, example, {}, &StepPart::first_example);
  return static_cast<std::size_t>(after - parts.begin()) - 1;
}

struct StepPlan : StepCounts {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  Assignment ranks;  // ranks[r][m]: what rank r trains in micro-batch m
  // Where several adapters are trained together. A micro-batch has their pieces one adapter after
  // another. Empty: one adapter or none.
  std::vector<StepPart> parts;

  std::int64_t num_micro_batches() const {
    return ranks.empty() ? 0 : static_cast<std::int64_t>(ranks.front().size());
  }
};

}  // namespace packtrain
