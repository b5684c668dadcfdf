// The mixer of a layer with a gated delta rule, recorded on the block's tape
// (recorded_operators.h). Queries, keys and values are convolved along their sequence. The gated
// delta rule runs over each sequence from an empty state. Then each head is normed and gated.
#pragma once

#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

struct DeltaNetOptions {
  DeltaNetConfig config;
  double standard_deviation = 0.02;  // of the convolution's initial weights
};

// G is num_key_heads, K key_head_dim, H num_value_heads, and V value_head_dim. `qkvz`
// [T, 2 G K + 2 H V] has queries, keys, values and the gate of the output. `ba` [T, 2 H] has the
// projections of strength and decay. Returns [T, H V]. Declares NAME.conv.weight
// [2 G K + H V, conv_width], NAME.A_log [H], NAME.dt_bias [H] and NAME.norm.weight [V].
Value delta_net(OperatorTape& tape, const std::string& name, Value qkvz, Value ba,
                const DeltaNetOptions& options);

}  // namespace packtrain
