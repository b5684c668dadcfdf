// The dtype of an export, and the loss of precision.
#pragma once

#include <string>

#include "training/checkpoint/training_state.h"

namespace packtrain {

// "bfloat16" or "float32": the compute dtype of the run that saved `state`.
std::string dtype_of_run(const TrainingState& state);

// Warns when writing the checkpoint as bfloat16 removes a tenth or more of the change that training
// made. It needs the start of the run: at `moved_to`, or where the run had it.
void warn_of_rounding(const std::string& checkpoint, const TrainingState& state,
                      const std::string& moved_to);

}  // namespace packtrain
