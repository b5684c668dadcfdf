// The mixer of a layer with a gated short convolution (ops/short_conv), recorded on the block's
// tape (recorded_operators.h).
#pragma once

#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

struct ShortConvOptions {
  ShortConvConfig config;
  double standard_deviation = 0.02;  // of the convolution's initial weights
};

// `projection` [T, 3 C] has the gate before the convolution, the gate after it, and the rows that
// are convolved. Returns [T, C]. Declares NAME.conv.weight [C, width] and, with a bias,
// NAME.conv.bias [C].
Value short_conv(OperatorTape& tape, const std::string& name, Value projection,
                 const ShortConvOptions& options);

}  // namespace packtrain
