// The cutoff of an MLP's gates (ops/gate_cutoff) on a layer's tape.
#pragma once

#include <string>

#include "models/block/operator_tape.h"

namespace packtrain {

// The projection [gate | up] with gates below the cutoff set to 0. An activation must be its one
// reader. It is recomputed in backward rather than saved, because the projection is saved.
Value cut_gates(OperatorTape& tape, const std::string& name, Value x, double quantile);

}  // namespace packtrain
