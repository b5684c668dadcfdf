// The magnitudes of a linear layer's rows (DoRA, ops/linear/dora.h), recorded on the block's tape:
//    z = x W^T + the update, as the layer without bias records it;  y = g z + b + r
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/fp8_base.h"
#include "models/layers/low_rank_update.h"

namespace packtrain {

// Records the norms of the rows of W + scale B A: float32 [1, rows]. They are always saved, so that
// recomputation does not compute them again.
Value record_dora_norms(OperatorTape& tape, const std::string& name, std::int64_t num_rows,
                        ParameterId weight, const LowRankUpdate& update);

// These terms are in y in addition to z.
struct DoraTerms {
  Value x;  // the input of z; read here with dropout, and without the adapter
  Value norms;
  ParameterId weight;
  ParameterId bias;  // or none
  std::optional<Value> residual;
  std::optional<Fp8Base> fp8 = std::nullopt;  // the product without the adapter reads 8-bit floats
};

// Records y, which is computed again from z where a backward reads it. Its backward writes the
// gradients of the magnitudes. It writes the gradient of z to the memory of z, which no other
// backward reads.
Value record_dora_scale(OperatorTape& tape, const std::string& name, Value z,
                        const LowRankUpdate& update, const DoraTerms& terms);

}  // namespace packtrain
