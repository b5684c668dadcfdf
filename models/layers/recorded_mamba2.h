// The mixer of a layer with Mamba-2's state space model (ops/mamba2/ssd.h), recorded on the block's
// tape (recorded_operators.h). Its rows are convolved along their sequence. The state space model
// runs over each sequence from an empty state. Its output times silu of the gate is normed, unless
// the config has no norm.
#pragma once

#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

struct Mamba2Options {
  Mamba2Config config;
  double standard_deviation = 0.02;  // of the convolution's initial weights
};

// H is num_heads, P head_dim, G num_groups, and N state_dim. `projection` [T, 2 H P + 2 G N + H]
// has the gate, x, B, C and the steps. Returns [T, H P]. Declares NAME.conv.weight [H P + 2 G N,
// conv_width], NAME.conv.bias, and NAME.A_log, NAME.D and NAME.dt_bias [H], which are float32 in
// any model, and NAME.norm.weight [H P].
Value mamba2(OperatorTape& tape, const std::string& name, Value projection,
             const Mamba2Options& options);

}  // namespace packtrain
