// multipack: bin packing to a token budget near the shuffled order, after the sampler of that name
// (github.com/imoneoi/multipack_sampler), which drops the end of an epoch that cannot feed all
// ranks and ends an epoch silently at an example longer than its budget. Here the packs of a step
// are chosen before anybody knows ranks, the end is trained, and what cannot fit is an error. The
// packs of a step are laid over ranks and micro-batches as balanced lays examples. Packs of equal
// tokens differ in cost, for attention's squares, so ranks then trade examples of their packs.
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// Throws Error(kConfig) when an example or piece is longer than a pack, or a step is not counted in
// tokens.
void check_multipack(const Selection& selection, const PlanOptions& options);

// As many micro-batches as the packs need. Which examples the step has stays as it is.
Assignment assign_multipack(const StepPieces& step, const PlanOptions& options);

}  // namespace packtrain
