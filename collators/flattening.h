// The flattening collator: pieces laid end to end, position IDs restarting, no padding between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collators/packed_batch.h"
#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// How supervised tokens are weighed so that summing weight * loss over every token of every rank
// and micro-batch of the optimizer step gives the step's loss. Both counts are the StepPlan's.
// kTokens: weight = 1 / num_loss_tokens.
// kExamples: weight = 1 / (num_examples * the example's labels), those that are trained: of a
// truncated example the labels before the cut, of a split one the labels of all its pieces.
struct LossNormalization {
  Normalize mode = Normalize::kTokens;
  std::int64_t num_loss_tokens = 1;
  std::int64_t num_examples = 1;
};

struct FlatteningOptions {
  std::int32_t row_multiple = 128;  // num_tokens is rounded up with one dummy sequence
};

// Where the batch's bytes live: called once with the size wanted, returns at least that much.
// Empty = PackedBatch::storage.
using HostAllocator = std::function<std::span<std::byte>(std::size_t)>;

// Builds the batch of `pieces` (may be empty: only the dummy sequence, no supervised row). The
// dummy sequence has id 0, labels -100 and consecutive positions: one sequence, because a row of
// zeros would make every pad a sequence of its own. The last token of a piece has a label only when
// the piece `continues`. O(tokens).
// Throws Error(kInternal) for a piece outside its example, a batch beyond 2^31 - 1 rows, or memory
// smaller than asked for.
PackedBatch flatten(const TokenStore& store, const MicroBatch& pieces,
                    const LossNormalization& normalization, const FlatteningOptions& options = {},
                    const HostAllocator& allocate = {});

// cu_seqlens from position IDs alone: a sequence starts where a position is 0 (the mechanism of
// arXiv 2407.09105). For callers without boundaries; equal to the planned ones (tested).
// Throws Error(kData) when the first position is not 0.
std::vector<std::int32_t> boundaries_from_position_ids(std::span<const std::int32_t> position_ids);

}  // namespace packtrain
