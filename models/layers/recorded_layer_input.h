// The end of a layer of Gemma 3n or 4. After its two branches a third one reads the part of the
// layer in the rows that the embedding made (BatchState::layer_inputs). A constant may multiply the
// output.
#pragma once

#include <cstdint>
#include <string>

#include "models/block/operator_tape.h"

namespace packtrain {

// The columns of a layer in BatchState::layer_inputs.
struct LayerInputColumns {
  std::int64_t begin = 0;
  std::int64_t width = 0;
};

// Returns [rows, 2 width]: `gate` [rows, width], then the layer's columns, as gated activations
// read both. Rows are all rows of the micro-batch, or the supervised ones. Backward writes the
// gradient of the columns to the state.
Value with_layer_input(OperatorTape& tape, const std::string& name, Value gate,
                       const LayerInputColumns& columns);

// x times the constant NAME [1], which is not trained and is 1 at first.
Value scaled_by_constant(OperatorTape& tape, const std::string& name, Value x);

}  // namespace packtrain
