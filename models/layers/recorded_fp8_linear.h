// A linear layer whose products read 8-bit floats (ops/fp8), recorded on the block's tape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/linear_precision.h"

namespace packtrain {

struct Fp8Layer {
  ParameterId weight;
  ParameterId bias;
  std::int64_t width = 0;  // of the output
  bool trained = true;     // the weight has a gradient
  Fp8Products products = Fp8Products::kAll;
  Fp8Recipe recipe = Fp8Recipe::kTensor;
};

// Attention's backward reads its output, and a block always keeps its input. So their 8-bit copies
// are not saved.
constexpr bool stays_for_backward(ValueKind kind) {
  return kind == ValueKind::kAttentionOutput || kind == ValueKind::kInput;
}

// x W^T with bias and residual, of the recipe kTensor (recorded_fp8_block_linear.h has the others).
// Records the value NAME, and NAME.scales of both operands. Also
// records NAME.input: the columns of x that the weight's gradient reads, in place of x. They have
// the kind of x, so that a policy keeps one or the other. Where another backward has x in any case,
// they are cast again in backward instead.
Value record_fp8_product(OperatorTape& tape, const std::string& name, Value x,
                         const Fp8Layer& layer, std::optional<Value> residual);

}  // namespace packtrain
