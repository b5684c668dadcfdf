// The dtype of an export, and what it loses.
#pragma once

#include <string>

#include "framework/checkpoint/training_state.h"

namespace packtrain {

// "bfloat16" or "float32": what the run that saved `state` computed in.
std::string dtype_of_run(const TrainingState& state);

// Warns where writing the checkpoint as bfloat16 takes away a tenth or more of what training
// changed, as far as what the run started from is still there (`moved_to`, or as the run had it).
void warn_of_rounding(const std::string& checkpoint, const TrainingState& state,
                      const std::string& moved_to);

}  // namespace packtrain
