// Attention as layers use it: clipped, normalised and turned queries and keys, then causal
// attention inside each sequence, recorded on the block's tape (recorded_operators.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

#include "models/batch.h"
#include "models/decoder_config.h"
#include "models/operator_tape.h"
#include "models/ops/attention/attention.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/rotary/rotary.h"

namespace packtrain {

struct RotaryEmbedding {
  at::Tensor frequencies;  // as rotary_forward_ takes them, on the device
  RotaryOptions options;
};

// Null where the model has none.
struct AttentionWeights {
  const Parameter* query_norm = nullptr;  // shapes: QkNormKind
  const Parameter* key_norm = nullptr;
  const Parameter* sinks = nullptr;  // [heads]
};

struct AttentionOptions {
  AttentionShape shape;
  RotaryEmbedding rotary;
  double clip_qkv = 0;  // queries, keys and values to [-clip, clip]; 0: not
  QkNormKind qk_norm = QkNormKind::kNone;
  RmsNormOptions norm;  // of queries and keys
};

// Of the merged projection qkv [T, (heads + 2 kv) D], which is turned in its place when there is no
// norm, and stays for the norm's backward when there is one: [T, heads D].
Value self_attention(OperatorTape& tape, std::string_view name, Value qkv,
                     const AttentionWeights& weights, const AttentionOptions& options,
                     const DeviceBatch& batch);

}  // namespace packtrain
