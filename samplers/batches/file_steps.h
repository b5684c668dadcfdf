// Steps that a plan file has (plan_file/plan_file.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "samplers/batches/epoch_batches.h"

namespace packtrain {

// The steps of options.plan_file; `order` has no effect. Epochs beyond those of the file begin
// again with its first one. Examples that are not selected are left out of their steps. With ranks
// in the file, the packs of a step are its micro-batches, all of rank 0 first; a pack may be empty.
// Memory: one bit an example where some are not selected. A step takes O(its line).
std::unique_ptr<EpochBatches> make_file_steps(BatchInputs inputs);

// Nothing where the file's epochs differ in their numbers of steps.
std::optional<std::int64_t> file_steps(const Selection& selection, const PlanOptions& options);

}  // namespace packtrain
