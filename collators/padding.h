// The padding collator: every piece is padded to the longest of its micro-batch, as in a
// rectangular batch. Measurements compare packing with it.
#pragma once

#include "collators/batch_builder.h"
#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// Builds the batch of `pieces`. Each is one sequence of `longest piece` rows: its tokens, then
// padding with consecutive positions. An empty `pieces` gives only the dummy sequence. The loss
// equals that of flatten(): padding has no label, and causal attention of real tokens never reads
// it. O(pieces * longest piece). Throws what build_batch throws.
PackedBatch pad_to_longest(const TokenStore& store, const MicroBatch& pieces,
                           const LossNormalization& normalization,
                           const CollatorOptions& options = {}, const HostAllocator& allocate = {});

}  // namespace packtrain
