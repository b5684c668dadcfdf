// Attention as layers use it: rotary positions and causal attention inside each sequence, recorded
// on the block's tape (recorded_operators.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "models/batch.h"
#include "models/operator_tape.h"
#include "models/ops/attention/attention.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

struct RotaryEmbedding {
  at::Tensor frequencies;  // float32 [rotated / 2], on the device
  RotaryOptions options;
};

struct AttentionOptions {
  AttentionShape shape;
  RotaryEmbedding rotary;
};

// Of the merged projection qkv [T, (heads + 2 kv) D], which is turned in its place: [T, heads D].
Value self_attention(OperatorTape& tape, std::string_view name, Value qkv,
                     const AttentionOptions& options, const DeviceBatch& batch);

}  // namespace packtrain
