// xIELU (ops/xielu) as MLPs use it, recorded on the block's tape (recorded_operators.h).
#pragma once

#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/recorded_operators.h"

namespace packtrain {

// Declares `parameters`.alpha_p and .alpha_n [1], and the constants .beta and .eps [1]. All are
// float32 in any model. `name` is that of the output. The kernels find no amax for 8-bit products,
// whose casts find their own.
Value xielu(OperatorTape& tape, const std::string& name, const std::string& parameters, Value x,
            const ActivationNeighbours& neighbours = {});

}  // namespace packtrain
