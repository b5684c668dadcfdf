// The gate of attention's output, recorded on the block's tape (recorded_operators.h).
#pragma once

#include <string>

#include "models/block/operator_tape.h"

namespace packtrain {

// Multiplies y [T, W] by the logistic function of the first W columns of `projection`
// (output_gate.h). Its backward allocates the gradient of the whole projection and writes these
// columns of it. The backward of another operator that reads `projection`, recorded before, writes
// the others.
Value gated_output(OperatorTape& tape, const std::string& name, Value y, Value projection);

}  // namespace packtrain
