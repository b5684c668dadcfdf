// file: the steps of a plan file, which any program may write. A whole plan is used as it is. Steps
// without ranks are assigned as in balanced.
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// Reads the whole file once. Throws Error(kConfig) when it is for another number of ranks. Throws
// Error(kData) when it is for other data, or when an epoch has an example twice or lacks one. The
// same with line, step, rank and micro-batch for more tokens than the budget. Memory: one bit an
// example.
void check_file(const Selection& selection, const PlanOptions& options);

// The micro-batches of the file. One above a budget that was lowered later is divided, on all
// ranks.
Assignment assign_file(const StepPieces& step, const PlanOptions& options);

}  // namespace packtrain
