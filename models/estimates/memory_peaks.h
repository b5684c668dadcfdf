// Memory peaks of a step: when activations and workspaces need most memory, and for what. Computed
// from shapes alone, in the order in which backward walks a layer's tape (operator_tape.h,
// decoder_layer.cpp).
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "models/block/operator_tape.h"
#include "models/estimates/saved_activations.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

struct MemoryPeak {
  std::string name;
  std::int64_t kept = 0;                // saved activations of layers
  std::vector<SavedActivation> in_use;  // in addition to these

  std::int64_t bytes() const { return kept + total_bytes(in_use); }
};

struct MicroBatchShape {
  std::int64_t num_rows = 0;             // of a micro-batch, padding included
  std::int64_t num_supervised_rows = 0;  // of these
  std::int64_t max_rows = 0;  // of any micro-batch; attention's workspace is sized for them
  std::int64_t num_sequences = 1;
  bool on_gpu = true;
  c10::ScalarType compute = c10::kBFloat16;
  bool narrow_head_gradient = false;  // the head's gradient is stored in less than float32
};

// Peaks at the loss, and at the backward of the MLP's activation and of attention. The latter two
// are those of the last layer and of the layer before it, if the last one has fewer rows. The
// largest of these is the peak of the step.
std::vector<MemoryPeak> memory_peaks(const DecoderConfig& config, RecomputePolicy policy,
                                     const MicroBatchShape& size);

}  // namespace packtrain
