// balanced: assigns the whole optimizer batch to ranks and to as few micro-batches as the token
// budget allows. Ranks then wait as little as possible for each other (balance/balance.h).
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// Checks nothing: every example fits a micro-batch, and micro-batches are added as needed.
void check_balanced(const Selection& selection, const PlanOptions& options);

// Assigns packs, or pieces where there are no packs. They keep the step's order inside a
// micro-batch. fixed_length uses it, too.
Assignment assign_balanced(const StepPieces& step, const PlanOptions& options);

}  // namespace packtrain
