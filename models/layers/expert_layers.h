// Layers of a decoder that have experts.
#pragma once

#include <cstdint>

#include "models/layers/decoder_config.h"

namespace packtrain {

// Number of layers with experts among the first `num_layers`. This is also the index of layer
// `num_layers` among them.
inline std::int64_t num_expert_layers(const DecoderConfig& config, std::int64_t num_layers) {
  std::int64_t count = 0;
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    if (config.layer(layer).experts) ++count;
  }
  return count;
}

// The auxiliary loss needs the routing of all rows, including rows of the last layer without a
// label.
inline bool last_layer_needs_all_rows(const DecoderConfig& config) {
  return config.experts.auxiliary_loss != 0 && config.layer(config.num_layers - 1).experts;
}

}  // namespace packtrain
