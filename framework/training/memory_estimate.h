// How much device memory a rank will need, from shapes alone: no device, no weights.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/config/config.h"
#include "models/decoder_config.h"
#include "models/operator_tape.h"

namespace packtrain {

// Bytes on one rank. b: bytes of the compute dtype, r: of the reduce dtype (4 or 2).
struct MemoryEstimate {
  // What the rank owns of every unit (flat layouts, padding included): float32 master, two moments
  // of optimizer.moments, and the b-byte copy that is gathered where b = 2; b bytes of frozen
  // weights. The gradient: float32; on one rank whose steps have one micro-batch r bytes.
  std::int64_t state = 0;
  // Several ranks: the weight slots units are gathered into, b bytes an element, the gradient slots
  // blocks write to, r bytes an element, and the largest unit's shard once more for reduction, r.
  std::int64_t slots = 0;
  // Kept from forward to backward: `layer_values` (models/saved_values.h) of every layer, as
  // memory.recompute chooses, the head's input, and what one layer makes again.
  std::int64_t activations = 0;
  std::vector<SavedValue> layer_values;  // of one layer
  // The largest of what is in use for a moment: in the head 3 H b a row, a chunk of logits in the
  // compute dtype, in float32 and its exponentials, and the head's gradient in float32 where there
  // are several chunks; in a layer's backward the MLP's activation and three gradients (4 I b a
  // row), beside four of the residual stream's width.
  std::int64_t working = 0;

  std::int64_t total() const { return state + slots + activations + working; }
};

// `num_rows`: of the largest micro-batch, padding included; every row is taken as supervised.
// `several_micro_batches`: whether a step may have more than one.
// Follows parallel/sharding exactly; `working` is that of operators composed of libtorch's, so
// fused kernels stay below it. The CUDA context and what the allocator loses to fragmentation are
// not in it. Throws Error(kConfig) when a pattern in model.frozen matches no parameter.
MemoryEstimate estimate_memory(const Config& config, const DecoderConfig& decoder, int num_ranks,
                               std::int64_t num_rows, bool several_micro_batches);

}  // namespace packtrain
