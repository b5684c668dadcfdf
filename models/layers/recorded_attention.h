// Attention as layers use it, recorded on the block's tape (recorded_operators.h). Queries and keys
// are clipped, normed and rotated, then causal attention runs inside each sequence.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "models/block/batch.h"
#include "models/block/operator_tape.h"
#include "models/layers/decoder_config.h"
#include "models/ops/attention/attention.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

struct RotaryEmbedding {
  at::Tensor frequencies;  // on the device, as for rotary_forward_
  RotaryOptions options;
};

// Null for those that the model does not have.
struct AttentionWeights {
  const Parameter* query_norm = nullptr;  // shapes: QkNormKind
  const Parameter* key_norm = nullptr;
  const Parameter* sinks = nullptr;  // [heads]
};

struct AttentionOptions {
  AttentionShape shape;
  RotaryEmbedding rotary;
  double clip_qkv = 0;  // clips queries, keys and values to [-clip, clip]; 0: no clipping
  QkNormKind qk_norm = QkNormKind::kNone;
  RmsNormOptions norm;  // of queries and keys
};

// Input is the merged projection qkv [T, (heads + 2 kv) D], output [T, heads D]. Without a norm,
// qkv is rotated in place. With a norm it is not changed, because the norm's backward needs it.
Value self_attention(OperatorTape& tape, std::string_view name, Value qkv,
                     const AttentionWeights& weights, const AttentionOptions& options,
                     const DeviceBatch& batch);

}  // namespace packtrain
