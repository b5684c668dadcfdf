// padding: the micro-batches of padding_free, with each example padded to the longest of its
// micro-batch, as in rectangular batches. The budget counts the padding.
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// Throws Error(kConfig) when micro_batch_size rows of the longest example exceed the budget.
void check_padding(const Selection& selection, const PlanOptions& options);

Assignment assign_padding(const StepPieces& step, const PlanOptions& options);

}  // namespace packtrain
