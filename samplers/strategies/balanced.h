// balanced: the whole optimizer batch laid at once over ranks x as few micro-batches as the token
// budget allows, so that the ranks wait for each other as little as possible (balance/balance.h).
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// Nothing to check: every example fits a micro-batch, and micro-batches are added as needed.
void check_balanced(const Selection& selection, const PlanOptions& options);

// Packs, or pieces where there are none, are what is laid out, and stay in the step's order inside
// a micro-batch. The assignment of fixed_length, too.
Assignment assign_balanced(const StepPieces& step, const PlanOptions& options);

}  // namespace packtrain
