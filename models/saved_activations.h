// What a layer keeps from forward to backward, by value: the table that `packtrain plan` prints and
// the memory plan adds up. Equal to what OperatorTape::saved() finds (tests/models).
#pragma once

#include <cstdint>
#include <vector>

#include "models/decoder_config.h"
#include "models/operator_tape.h"

namespace packtrain {

// Rows of a micro-batch that a layer works on, padding included. The last layer goes on with the
// supervised ones alone.
struct LayerRows {
  std::int64_t num_rows = 0;
  std::int64_t num_rows_after_attention = 0;
  std::int64_t layer = 0;  // which one: not all layers need have experts
};

enum class BackwardPhase {
  kBetween,           // from forward to backward
  kMlpBackward,       // in the backward of the MLP's activation
  kAttentionBackward  // in the backward of attention
};

// The values of a layer that are there at a moment, those made again for it included; gradients are
// not. An element takes `element_bytes`.
std::vector<SavedActivation> layer_activations_at(BackwardPhase moment, const DecoderConfig& config,
                                                  RecomputePolicy policy, const LayerRows& rows,
                                                  std::int64_t element_bytes);

// From forward to backward, all rows supervised, of the layer that keeps most.
std::vector<SavedActivation> layer_saved_activations(const DecoderConfig& config,
                                                     RecomputePolicy policy, std::int64_t num_rows,
                                                     std::int64_t element_bytes);

std::int64_t total_bytes(const std::vector<SavedActivation>& values);

}  // namespace packtrain
