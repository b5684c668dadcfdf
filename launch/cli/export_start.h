// What a run started from, as its checkpoints know it: for exports.
#pragma once

#include <string>

#include "framework/checkpoint/hugging_face.h"
#include "framework/checkpoint/training_state.h"
#include "framework/config/config.h"

namespace packtrain {

struct RunStart {
  std::string folder;  // model.path: a Hugging Face folder or a checkpoint; "" for random weights
  std::string prefix;  // model.prefix
};

// The configuration that `state` was saved with; keys that it lacks have their defaults.
Config config_of_run(const TrainingState& state);

// As the configuration that `state` was saved with says.
RunStart start_of(const TrainingState& state);

// The Hugging Face folder at the beginning of a chain of runs, each of which started from a
// checkpoint of the one before; its folder is "" where there is none.
RunStart first_start_of(const TrainingState& state);

// Of a run on the text model of a folder of more than text: has the export write the whole, out of
// that folder (`moved_to` where it lies elsewhere now). Throws Error(kCheckpoint) where the folder
// is not there.
void write_whole(const TrainingState& state, const std::string& moved_to, ExportOptions& options);

}  // namespace packtrain
