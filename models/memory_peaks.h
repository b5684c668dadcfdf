// When in a step activations and what operators work in need most memory, and for what. From shapes
// alone; follows the order in which a layer's tape goes back (operator_tape.h, decoder_layer.cpp).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/decoder_config.h"
#include "models/operator_tape.h"
#include "models/saved_activations.h"

namespace packtrain {

struct MemoryPeak {
  std::string name;
  std::int64_t kept = 0;                // layers' values
  std::vector<SavedActivation> in_use;  // beside them

  std::int64_t bytes() const { return kept + total_bytes(in_use); }
};

struct MicroBatchShape {
  std::int64_t num_rows = 0;             // of a micro-batch, padding included
  std::int64_t num_supervised_rows = 0;  // of these
  std::int64_t max_rows = 0;             // of any micro-batch: attention's workspace is for these
  std::int64_t num_sequences = 1;
  bool on_gpu = true;
  c10::ScalarType compute = c10::kBFloat16;
  bool narrow_head_gradient = false;  // the head's gradient is wanted in less than float32
};

// The loss, and the backward of the MLP's activation and of attention in the last layer and, where
// that works on fewer rows, in the one before. The most of any moment is the most of these.
std::vector<MemoryPeak> memory_peaks(const DecoderConfig& config, RecomputePolicy policy,
                                     const MicroBatchShape& size);

}  // namespace packtrain
