// Whether an exported folder is what was trained.
#pragma once

#include <string>

#include "framework/checkpoint/training_state.h"

namespace packtrain {

// Loads `folder`, evaluates it over the token store with the options of the run that saved `state`
// (one rank) and prints its loss beside the run's own. Returns the exit code: not 0, and said on
// standard error, where that fails or the loss is not finite.
int check_export(const std::string& folder, const TrainingState& state, const std::string& store);

}  // namespace packtrain
