// Saved activations of a layer, by value. `packtrain plan` prints them, and the memory plan adds
// them up. Equal to what ExecutingTape::saved() finds (tests/models).
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/shape_tape.h"
#include "models/decoder/layer_policies.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Values of the tape that are saved from forward to backward, in the order of the forward.
std::vector<SavedActivation> saved_activations(const ShapeTape& tape,
                                               const RecomputePolicy& policy);

// Those of the layer that saves most, when all rows are supervised.
std::vector<SavedActivation> layer_saved_activations(const DecoderConfig& config,
                                                     const LayerPolicies& policies,
                                                     MicroBatchShape size);

// Bytes of the rows in the state of the batch that blocks share (BatchState::layer_inputs and
// keys_and_values), from forward to backward. Their gradients have as many, in backward.
std::int64_t shared_row_bytes(const DecoderConfig& config, const MicroBatchShape& size);

std::int64_t total_bytes(const std::vector<SavedActivation>& values);

}  // namespace packtrain
