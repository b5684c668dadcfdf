// Checks that an exported folder holds the trained model.
#pragma once

#include <string>

#include "training/checkpoint/training_state.h"

namespace packtrain {

// Loads `folder` and evaluates it on the token store with the options of the run that saved
// `state`, on one rank. Prints its loss next to the run's own. Returns an exit code: not 0, with a
// message on standard error, where that fails or the loss is not finite.
int check_export(const std::string& folder, const TrainingState& state, const std::string& store);

}  // namespace packtrain
