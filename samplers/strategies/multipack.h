// multipack: bin packing to a token budget near the shuffled order, after the sampler of that name
// (github.com/imoneoi/multipack_sampler). That sampler drops the end of an epoch that cannot feed
// all ranks, and silently ends an epoch at an example longer than its budget. Here packs do not
// depend on ranks, the end is trained, and an example that cannot fit is an error. The packs of a
// step are assigned to ranks and micro-batches as in balanced. Packs of equal tokens differ in
// attention cost, so ranks then trade examples of their packs.
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// Throws Error(kConfig) when an example or piece is longer than a pack, or a step is not counted in
// tokens.
void check_multipack(const Selection& selection, const PlanOptions& options);

// Uses as many micro-batches as the packs need. The examples of the step do not change.
Assignment assign_multipack(const StepPieces& step, const PlanOptions& options);

}  // namespace packtrain
