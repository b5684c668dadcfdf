// The tables that described a layer by hand, as the oracle of estimates_test.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/block.h"
#include "models/estimates/memory_peaks.h"
#include "models/layers/decoder_config.h"

namespace packtrain::tables {

// Rows of a micro-batch that a layer computes, padding included. After attention the last layer
// computes only the supervised ones.
struct LayerRows {
  std::int64_t num_rows = 0;
  std::int64_t num_rows_after_attention = 0;
  std::int64_t layer = 0;  // index: only some layers may have experts
};

enum class BackwardPhase {
  kBetween,           // from forward to backward
  kMlpBackward,       // in the backward of the MLP's activation
  kAttentionBackward  // in the backward of attention
};

// Values of a layer that exist at this point of the step, including those recomputed for it,
// without gradients. An element takes `element_bytes`.
std::vector<SavedActivation> layer_activations_at(BackwardPhase moment, const DecoderConfig& config,
                                                  RecomputePolicy policy, const LayerRows& rows,
                                                  std::int64_t element_bytes);

// Saved from forward to backward by the layer that saves most, when all rows are supervised.
std::vector<SavedActivation> layer_saved_activations(const DecoderConfig& config,
                                                     RecomputePolicy policy, std::int64_t num_rows,
                                                     std::int64_t element_bytes);

std::vector<MemoryPeak> memory_peaks(const DecoderConfig& config, RecomputePolicy policy,
                                     const MicroBatchShape& size);
std::vector<ParameterSpec> embedding_parameters(const DecoderConfig& config);
std::vector<ParameterSpec> layer_parameters(const DecoderConfig& config, std::int64_t layer);
std::vector<ParameterSpec> head_parameters(const DecoderConfig& config);
double training_flops(const DecoderConfig& config, double num_tokens, double attention_squares);

}  // namespace packtrain::tables
