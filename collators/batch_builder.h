// Shared by all collators: writes pieces into a PackedBatch, segment after segment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "collators/label_weights.h"
#include "collators/packed_batch.h"
#include "collators/row_values.h"
#include "framework/config/config.h"
#include "framework/core/random.h"
#include "framework/data/attention_segment.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// How supervised tokens are weighted. The sum of weight * loss over all tokens of a step, of all
// ranks and micro-batches, is the step's loss.
//
// Here w is the loss weight of a token's example (LossWeights of the store). The weight of the
// token's mask byte is m (TokenWeights, else 1).
//
//   kTokens: weight = w m / denominator.
//   kExamples: weight = w m / (denominator * M).
//
// The denominator of kTokens is the step's sum of w m over supervised tokens. The denominator of
// kExamples is the step's sum of w over examples, and M is the sum of m over the example's trained
// labels. Trained labels of a truncated example are those before the cut. For a split example they
// are the labels of all its pieces.
//
// Where several adapters are trained together, each is normalized by its own step. The counts of
// `parts` then give the denominators.
//
// In a store with groups these are the weights of the next-token term. It has the examples that
// is_learned() names; the labels of others have weight 0, and the sums leave them out. The weight
// of a group is its loss weight divided by `group_denominator`, the step's sum over groups.
struct LossNormalization {
  Normalize mode = Normalize::kTokens;
  double denominator = 1.0;
  std::vector<StepPart> parts = {};
  double group_denominator = 1.0;

  double denominator_of(std::int64_t example) const;
};

LossNormalization loss_normalization(const StepPlan& plan, Normalize mode);

struct CollatorOptions {
  std::int32_t row_multiple = 128;  // rows are rounded up to it with one dummy sequence
  bool sources = false;             // fill PackedBatch::loss_source
  // Random bits of the step, for PackedBatch::row_seeds. Nothing: none.
  std::optional<CounterRandom> row_seeds = std::nullopt;
  // The same for PackedBatch::sample_seeds.
  std::optional<CounterRandom> sample_seeds = std::nullopt;
  // Label sums of the store, shared by all batches that receive this pointer. Null: each batch
  // computes its own sums.
  LabelWeights* label_weights = nullptr;
  // Log-probabilities of the reference model, for PackedBatch::reference of stores with groups.
  // Null: none.
  const RowValues* reference = nullptr;
  // The examples of groups are those of a plain store: all labels have weights, and no array
  // describes groups.
  bool as_plain = false;
};

// Allocates the batch's memory. It is called once with the number of bytes and returns at least
// that many. An empty function selects PackedBatch::storage.
using HostAllocator = std::function<std::span<std::byte>(std::size_t)>;

// A segment's contents: the next `num_pieces` pieces one after another, then padding up to its
// rows.
struct SegmentRun {
  std::size_t num_pieces = 1;
  RowRange rows;
  std::vector<RowRange> prefix;  // as in AttentionSegment

  AttentionSegment segment() const { return {rows, prefix}; }
};

// Writes `pieces` as `segments` and rounds the rows up with one dummy sequence. `segments` must
// cover all pieces, and the rows of each must begin where those of the one before it end.
// Positions of a segment begin after its prefix.
// Padding has id 0, label -100 and consecutive positions. It comes last in its segment, so that
// causal attention of real tokens never reads it. A piece's last token has a label only when the
// piece `continues`.
// With parts of a step, `pieces` are in the order of the parts.
// O(rows). With token weights and normalisation by examples it also reads the masks of examples
// that `options.label_weights` has not summed.
// Throws Error(kInternal) for a piece outside its example, a batch beyond 2^31 - 1 rows, or memory
// smaller than requested.
PackedBatch build_batch(const TokenStore& store, const MicroBatch& pieces,
                        std::span<const SegmentRun> segments,
                        const LossNormalization& normalization, const CollatorOptions& options,
                        const HostAllocator& allocate);

}  // namespace packtrain
