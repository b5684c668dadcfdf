// The rows of each adapter in a batch of several.
#pragma once

#include <span>

#include "collators/packed_batch.h"
#include "samplers/plan.h"

namespace packtrain {

// Fills adapter_rows and adapter_loss_rows. `pieces` are those of the batch, in the order of the
// parts. Writes nothing without parts.
void fill_adapter_rows(const MicroBatch& pieces, std::span<const StepPart> parts,
                       PackedBatch& batch);

}  // namespace packtrain
