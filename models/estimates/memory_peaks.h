// Memory peaks of a step: when activations and workspaces need most memory, and for what. Computed
// from the shape tapes of layers and head, in the order in which backward walks a tape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/decoder/layer_policies.h"
#include "models/estimates/saved_activations.h"

namespace packtrain {

struct MemoryPeak {
  std::string name;
  std::int64_t kept = 0;                // saved activations of layers
  std::vector<SavedActivation> in_use;  // in addition to these

  std::int64_t bytes() const { return kept + total_bytes(in_use); }
};

// Peaks at the loss, and at the backward of the operators that may have one. The latter are those
// of the last layers of each policy. The largest of these is the peak of the step.
std::vector<MemoryPeak> memory_peaks(const DecoderConfig& config, const LayerPolicies& policies,
                                     const MicroBatchShape& size);

}  // namespace packtrain
