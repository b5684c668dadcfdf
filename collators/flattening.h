// The flattening collator: pieces one after another without padding between them. Position IDs
// restart with each sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collators/batch_builder.h"
#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// Builds the batch of `pieces`. Each piece is one sequence, together with the pieces joined to it.
// An empty `pieces` gives only the dummy sequence, without a supervised row. The dummy rows form
// one sequence: position IDs of 0 would make each padding row a sequence of its own. O(tokens).
// Throws what build_batch throws.
PackedBatch flatten(const TokenStore& store, const MicroBatch& pieces,
                    const LossNormalization& normalization, const CollatorOptions& options = {},
                    const HostAllocator& allocate = {});

// Computes cu_seqlens from position IDs alone: a sequence starts where a position is 0 (the method
// of arXiv 2407.09105). It is for callers without boundaries; a test compares it with the planned
// boundaries. Throws Error(kData) when the first position is not 0.
std::vector<std::int32_t> boundaries_from_position_ids(std::span<const std::int32_t> position_ids);

}  // namespace packtrain
