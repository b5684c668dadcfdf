// What a run does between loading its weights and its first step, so that no step waits for it.
#pragma once

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "training/loop/planned_run.h"
#include "training/loop/run_inputs.h"

namespace packtrain {

// Measures the costs of micro-batches for the plan, when batch.cost asks for it. Collective.
void prepare_costs(const RunInputs& inputs, const PlannedRun& run, World& world);

// Libraries time algorithms and build plans for the sizes of the coming steps (rehearsal.h).
// Collective. Does nothing on a CPU and in deterministic runs.
void prepare_sizes(const Config& config, const RunInputs& inputs, const PlannedRun& run,
                   World& world);

// True when the run executes steps as CUDA graphs. Throws Error(kConfig) when run.cuda_graphs is on
// and they are not possible.
bool uses_graphs(const Config& config, const RunInputs& inputs, const PlannedRun& run,
                 const World& world);

}  // namespace packtrain
