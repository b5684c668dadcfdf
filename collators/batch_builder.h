// What every collator shares: pieces laid into a PackedBatch, sequence after sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "collators/label_weights.h"
#include "collators/packed_batch.h"
#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// How supervised tokens are weighed so that summing weight * loss over every token of every rank
// and micro-batch of the optimizer step gives the step's loss. With w the loss weight of a token's
// example (the store's LossWeights) and m the weight of its mask byte (TokenWeights, else 1):
// kTokens: weight = w m / denominator, the sum of w m over the step's supervised tokens.
// kExamples: weight = w m / (denominator * the sum of m over the example's labels), the denominator
// the sum of w over the step's examples; labels are those that are trained: of a truncated example
// the labels before the cut, of a split one the labels of all its pieces.
struct LossNormalization {
  Normalize mode = Normalize::kTokens;
  double denominator = 1.0;
};

LossNormalization loss_normalization(const StepPlan& plan, Normalize mode);

struct CollatorOptions {
  std::int32_t row_multiple = 128;  // rows are rounded up to it with one dummy sequence
  bool sources = false;             // fill PackedBatch::loss_source
  // Of this store, for all batches that are given it; null: a batch sums for itself.
  LabelWeights* label_weights = nullptr;
};

// Where the batch's bytes live: called once with the size wanted, returns at least that much.
// Empty = PackedBatch::storage.
using HostAllocator = std::function<std::span<std::byte>(std::size_t)>;

// A sequence that attention works inside of: the next `num_pieces` pieces end to end, and pads
// behind them up to `num_rows`.
struct SequenceRun {
  std::size_t num_pieces = 1;
  std::size_t num_rows = 0;
};

// Lays `pieces` out as `sequences`, which hold them all, and rounds the rows up with one dummy
// sequence. Pads have id 0, label -100 and consecutive positions; they come last in their sequence,
// where causal attention never looks at them. A piece's last token has a label only when the piece
// `continues`. O(rows), and the tokens of examples in pieces that `options.label_weights` has not
// summed, where tokens have weights and the loss is normalised by examples.
// Throws Error(kInternal) for a piece outside its example, a batch beyond 2^31 - 1 rows, or memory
// smaller than asked for.
PackedBatch build_batch(const TokenStore& store, const MicroBatch& pieces,
                        std::span<const SequenceRun> sequences,
                        const LossNormalization& normalization, const CollatorOptions& options,
                        const HostAllocator& allocate);

}  // namespace packtrain
