// The configuration that a checkpoint was saved with.
#pragma once

#include "framework/config/config.h"
#include "training/checkpoint/training_state.h"

namespace packtrain {

// Missing keys have their defaults.
Config config_of_run(const TrainingState& state);

}  // namespace packtrain
