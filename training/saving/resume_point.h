// Finds the checkpoint that a run resumes from.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "framework/config/config.h"
#include "parallel/communicators/communicator.h"
#include "training/plan/run_plan.h"

namespace packtrain {

// By checkpoint.resume: the newest complete checkpoint of the run, the one that is named (or its
// newest descendant, named_start.h), or nothing. Ignores the folders in `passed_over`. Collective
// over `control`, which has all ranks. Throws Error(kConfig) for a new run whose folder has
// checkpoints, and Error(kCheckpoint) for a checkpoint that training cannot continue from.
std::optional<ResumePoint> find_resume_point(const Config& config,
                                             const std::set<std::string>& passed_over,
                                             Communicator& control);

}  // namespace packtrain
