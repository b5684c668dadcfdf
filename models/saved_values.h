// What a layer keeps from forward to backward, by value: the table that `packtrain plan` prints and
// the memory estimate adds up. Equal to what OperatorTape::saved() finds (tests/models).
#pragma once

#include <cstdint>
#include <vector>

#include "models/decoder_config.h"
#include "models/operator_tape.h"

namespace packtrain {

// Bytes for `num_rows` rows (padding included, all supervised) whose elements take `element_bytes`.
std::vector<SavedValue> layer_saved_values(const DecoderConfig& config, RecomputePolicy policy,
                                           std::int64_t num_rows, std::int64_t element_bytes);

}  // namespace packtrain
