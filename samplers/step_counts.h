// Counts and sums of loss weights of a step.
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/loss_counter.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// The sums follow the order of the epoch, which does not depend on ranks. Any number of ranks gets
// the same ones. Of a store with groups, `step` has the pieces of their examples.
StepCounts step_counts(const Selection& selection, const LossCounter& counter,
                       const StepPieces& step);

}  // namespace packtrain
