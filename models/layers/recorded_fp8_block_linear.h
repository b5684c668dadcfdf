// A linear layer whose products read 8-bit floats with a scale for each 128 numbers
// (ops/fp8/fp8_block.h), recorded on the block's tape.
#pragma once

#include <optional>
#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/recorded_fp8_linear.h"

namespace packtrain {

// x W^T with bias and residual. Records the value NAME. Also records NAME.input, the columns of x
// that the weight's gradient reads in place of x, and NAME.input_scales, where record_fp8_product()
// has the former. Scales of other operands are found again in backward.
Value record_fp8_block_product(OperatorTape& tape, const std::string& name, Value x,
                               const Fp8Layer& layer, std::optional<Value> residual);

}  // namespace packtrain
