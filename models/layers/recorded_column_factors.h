// Constant factors of columns, recorded on the block's tape (recorded_operators.h).
#pragma once

#include <string>
#include <vector>

#include "models/block/operator_tape.h"
#include "models/ops/column_factors/column_factors.h"

namespace packtrain {

// Multiplies the columns of x [T, W] by factors. Their widths add up to W. The product takes the
// memory of x, so that no other operator may read x.
// Returns x itself where all factors are 1.
Value multiply_columns(OperatorTape& tape, const std::string& name, Value x,
                       const std::vector<ColumnFactor>& factors);

}  // namespace packtrain
