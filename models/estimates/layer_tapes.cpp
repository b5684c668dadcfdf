#include "models/estimates/layer_tapes.h"

#include "models/decoder/layer_operators.h"

namespace packtrain {

LayerTapes::LayerTapes(const DecoderConfig& config, const MicroBatchShape& size) {
  std::vector<LayerPattern> patterns;
  const std::int64_t last = config.num_layers - 1;
  for (std::int64_t layer = 0; layer <= last; ++layer) {
    const LayerPattern pattern = config.layer(layer);
    std::size_t number = 0;
    while (number < patterns.size() && !(patterns[number] == pattern)) ++number;
    if (number == patterns.size() || layer == last) {
      number = patterns.size();
      patterns.push_back(pattern);
      tapes_.push_back(layer_shapes(config, layer, size));
    }
    tape_of_.push_back(number);
  }
}

}  // namespace packtrain
