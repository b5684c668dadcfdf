// The flattening collator: pieces laid end to end, position IDs restarting with each sequence, no
// padding between.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collators/batch_builder.h"
#include "collators/packed_batch.h"
#include "framework/data/token_store.h"
#include "samplers/plan.h"

namespace packtrain {

// Builds the batch of `pieces` (may be empty: only the dummy sequence, no supervised row), each a
// sequence of its own, or with the pieces joined to it. The dummy sequence is one sequence, because
// a row of zeros would make every pad a sequence of its own. O(tokens). Errors: those of
// build_batch.
PackedBatch flatten(const TokenStore& store, const MicroBatch& pieces,
                    const LossNormalization& normalization, const CollatorOptions& options = {},
                    const HostAllocator& allocate = {});

// cu_seqlens from position IDs alone: a sequence starts where a position is 0 (the mechanism of
// arXiv 2407.09105). For callers without boundaries; equal to the planned ones (tested).
// Throws Error(kData) when the first position is not 0.
std::vector<std::int32_t> boundaries_from_position_ids(std::span<const std::int32_t> position_ids);

}  // namespace packtrain
