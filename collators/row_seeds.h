// Random bits of each row, for masks of dropout and for sampled labels.
#pragma once

#include <span>

#include "collators/packed_batch.h"
#include "framework/core/random.h"
#include "samplers/plan.h"

namespace packtrain {

// Fills row_seeds. A token of an example has the same bits in every packing, whether it is
// truncated or split, and whether other adapters are trained.
void fill_row_seeds(const MicroBatch& pieces, std::span<const StepPart> parts,
                    const CounterRandom& random, PackedBatch& batch);

// Fills sample_seeds with 64 bits for each supervised row, by the same counters.
void fill_sample_seeds(const MicroBatch& pieces, std::span<const StepPart> parts,
                       const CounterRandom& random, PackedBatch& batch);

}  // namespace packtrain
