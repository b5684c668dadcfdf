// The padding collator: every piece padded to the longest of its micro-batch, as the usual
// rectangular batch is. It is what packing is measured against.
#pragma once

#include "collators/batch_builder.h"
#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// Builds the batch of `pieces` (may be empty: only the dummy sequence), each a sequence of
// `longest piece` rows: its tokens, then pads, with positions running on. The loss is that of
// flatten(): pads have no label and stand where no real token looks.
// O(pieces * longest piece). Errors: those of build_batch.
PackedBatch pad_to_longest(const TokenStore& store, const MicroBatch& pieces,
                           const LossNormalization& normalization,
                           const CollatorOptions& options = {}, const HostAllocator& allocate = {});

}  // namespace packtrain
