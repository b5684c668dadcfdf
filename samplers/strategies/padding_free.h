// padding_free: micro_batch_size examples a rank and micro-batch, flattened; the online mini-batch
// mode of arXiv 2407.09105. Chunk i of the step goes to rank i % num_ranks in micro-batch i /
// num_ranks, as in data-parallel loaders.
#pragma once

#include "samplers/batches/epoch_batches.h"
#include "samplers/options.h"
#include "samplers/plan.h"
#include "samplers/selection.h"

namespace packtrain {

// Throws Error(kConfig) when the longest micro_batch_size examples together exceed the budget. A
// shuffle may put them into one micro-batch, and the run must not fail there in a later epoch.
void check_padding_free(const Selection& selection, const PlanOptions& options);

// `pads`: the budget counts the padding.
Assignment assign_chunks(const StepPieces& step, const PlanOptions& options, bool pads);
Assignment assign_padding_free(const StepPieces& step, const PlanOptions& options);

}  // namespace packtrain
