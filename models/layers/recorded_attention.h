// Attention as layers use it, recorded on the block's tape (recorded_operators.h). Queries and keys
// are clipped, normed and rotated. Queries are scaled by their temperature. Then causal attention
// runs inside each sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/block/operator_tape.h"
#include "models/layers/decoder_config.h"
#include "models/layers/shared_heads.h"
#include "models/ops/attention/attention.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/rotary/rotary.h"
#include "models/ops/rotary/rotary_frequencies.h"

namespace packtrain {

struct AttentionOptions {
  AttentionShape shape;
  std::int64_t value_dim = 0;  // elements of a value that are not zeros; for FLOPs
  bool sinks = false;
  double standard_deviation = 0.02;  // of the initial sinks
  RotaryOptions rotary;
  bool rotates = true;                                   // false: all frequencies are 0
  std::shared_ptr<const RotaryFrequencies> frequencies;  // a ShapeTape does not read them
  // Of a norm's operator that does not rotate: one, which is 0. kTurnedHead reads it.
  std::shared_ptr<const RotaryFrequencies> no_frequencies;
  QueryTemperature temperature;
  double clip_qkv = 0;  // clips queries, keys and values to [-clip, clip]; 0: no clipping
  QkNormKind qk_norm = QkNormKind::kNone;
  RmsNormOptions norm;  // of queries and keys
  bool gated = false;   // the projection begins with a gate of the output (ops/output_gate)
  SharedHeadsOptions shared;
};

// Input is the merged projection qkv [T, (heads + 2 kv) D], output [T, heads D]. A gate [T, heads
// D] precedes it in the same rows. Without a norm and a gate, qkv is rotated in place. With a norm
// it is not changed, because the norm's backward needs it. Declares NAME.query_norm.weight and
// NAME.key_norm.weight (shapes: QkNormKind), and NAME.sinks [heads]. The projection has fewer rows
// where values are the keys, or where keys and values are those of another layer (shared_heads.h).
Value self_attention(OperatorTape& tape, const std::string& name, Value qkv,
                     const AttentionOptions& options);

}  // namespace packtrain
