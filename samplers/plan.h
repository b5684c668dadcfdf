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
  // The tokens that the examples of a group share are a piece of its own. A piece after it with
  // `after_prefix` sees as many of its rows as it has tokens before `begin`. Its positions continue
  // there.
  bool is_prefix = false;
  bool after_prefix = false;
  // The piece is of the same group as the previous one, and so in its micro-batch.
  bool with_previous = false;

  friend bool operator==(const Piece&, const Piece&) = default;
};

// True for one piece of each example: the one that counts it. A shared prefix counts none.
inline bool counts_example(const Piece& piece) {
  return !piece.is_prefix && (piece.begin == 0 || piece.after_prefix);
}

using MicroBatch = std::vector<Piece>;  // may be empty: the rank runs a dummy sequence

// Calls visit(std::span<const Piece>, const AttentionSegment&) for each segment of `pieces`, in
// their order. A segment is a piece with those joined to it. Its rows are those of the pieces one
// after another without padding. Its prefix is valid during the call.
template <typename Visit>
void for_each_segment(std::span<const Piece> pieces, Visit&& visit) {
  AttentionSegment segment;
  RowRange prefix;  // the latest one
  for (std::size_t begin = 0; begin < pieces.size();) {
    segment.rows = {segment.rows.end, segment.rows.end + pieces[begin].length};
    std::size_t end = begin + 1;
    for (; end < pieces.size() && pieces[end].joined; ++end) {
      segment.rows.end += pieces[end].length;
    }
    if (pieces[begin].is_prefix) prefix = segment.rows;
    const RowRange seen{prefix.begin, prefix.begin + pieces[begin].begin};
    segment.prefix = {&seen, pieces[begin].after_prefix ? std::size_t{1} : std::size_t{0}};
    visit(pieces.subspan(begin, end - begin), std::as_const(segment));
    begin = end;
  }
}

// Calls visit(std::span<const Piece>) for each unit of `pieces`: what one micro-batch always has as
// a whole. It is a group, or a piece with those joined to it.
template <typename Visit>
void for_each_unit(std::span<const Piece> pieces, Visit&& visit) {
  for (std::size_t begin = 0; begin < pieces.size();) {
    std::size_t end = begin + 1;
    while (end < pieces.size() && (pieces[end].joined || pieces[end].with_previous)) ++end;
    visit(pieces.subspan(begin, end - begin));
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
  // Of a store with groups only examples count that next-token training would learn.
  double example_weight = 0;     // sum over examples
  double loss_token_weight = 0;  // sum over supervised tokens
  std::int64_t num_groups = 0;   // of a store with groups, else 0
  double group_weight = 0;       // sum of the loss weights of groups
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
