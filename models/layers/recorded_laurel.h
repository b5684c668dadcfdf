// The sum of a layer's first half with a learned augmented residual (LAuReL, Menghani et al., arXiv
// 2411.07501) as Gemma 3n computes it.
#pragma once

#include <string>
#include <vector>

#include "models/block/operator_tape.h"

namespace packtrain {

// (stream + sum of branches) / sqrt(2), all [rows, H]. Sums are float32.
Value laurel_sum(OperatorTape& tape, const std::string& name, Value stream,
                 const std::vector<Value>& branches);

}  // namespace packtrain
