// Where a run begins whose checkpoint.resume names a checkpoint. The same command is also how such
// a run is started again, so that its own progress must be found.
#pragma once

#include <set>
#include <string>

#include "training/checkpoint/manifest.h"
#include "training/checkpoint/training_state.h"

namespace packtrain {

// The checkpoint `folder` of this manifest, in the form that its descendants keep.
NamedCheckpoint named_checkpoint(const std::string& folder, const Manifest& manifest);

// The newest usable checkpoint of `root` that descends from `named`, which an earlier start left
// there; else `named`. One descends from it when TrainingState::resumed_from has its digest, or its
// path when `named` is no longer there. Ignores the folders in `passed_over`. One rank calls it. It
// logs a descendant that it chooses, and those that are damaged.
// Throws Error(kCheckpoint) when `named` cannot be read and has no descendant. Throws
// Error(kConfig) when `root` has newer checkpoints that do not descend from `named`. Two branches
// in one folder would replace each other, and a later start could take the wrong one.
std::string find_named_start(const std::string& named, const std::string& root,
                             const std::set<std::string>& passed_over);

}  // namespace packtrain
