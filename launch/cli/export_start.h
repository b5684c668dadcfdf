// The start of a run, as recorded in its checkpoints, for exports.
#pragma once

#include <string>

#include "training/checkpoint/hugging_face.h"
#include "training/checkpoint/training_state.h"

namespace packtrain {

struct RunStart {
  std::string folder;  // model.path: a Hugging Face folder or a checkpoint; "" for random weights
  std::string prefix;  // model.prefix
};

// The start of the run, from the configuration that `state` was saved with.
RunStart start_of(const TrainingState& state);

// Follows a chain of runs, each of which started from a checkpoint of the previous one. Returns the
// Hugging Face folder of the first; its `folder` is "" where there is none.
RunStart first_start_of(const TrainingState& state);

// For a run on the text model of a folder that has more than text. The export then writes the whole
// model, with the other parts from that folder. `moved_to`: its new location, if it was moved.
// Throws Error(kCheckpoint) where the folder does not exist.
void write_whole(const TrainingState& state, const std::string& moved_to, ExportOptions& options);

}  // namespace packtrain
