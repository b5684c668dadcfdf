// The parts of multi-head latent attention around attention itself (ops/latent_heads), recorded on
// the block's tape.
#pragma once

#include <cstdint>
#include <string>

#include "models/block/operator_tape.h"
#include "models/ops/latent_heads/latent_heads.h"

namespace packtrain {

struct SplitColumns {
  Value first;
  Value rest;
};

// Copies of the first `width` columns of x and of the others. Both must be read, and x by no other
// operator, because its memory is freed.
SplitColumns split_columns(OperatorTape& tape, const std::string& name, Value x,
                           std::int64_t width);

// Returns the merged heads [T, 3 H D]. `query` is [T, H (N + R)], `key_value` [T, H (N + V)], and
// `key_rope` [T, R] has the elements that heads share. No other operator reads the three.
Value latent_heads(OperatorTape& tape, const std::string& name, Value query, Value key_value,
                   Value key_rope, const LatentHeadShape& shape);

// Attention's output [T, H D] without the zeros after each head's values: [T, H V].
Value values_without_zeros(OperatorTape& tape, const std::string& name, Value y,
                           const LatentHeadShape& shape);

}  // namespace packtrain
