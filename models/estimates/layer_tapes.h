// Shape tapes of a model's layers for one size of micro-batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/block/shape_tape.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Layers of one kind share a tape. Only the last layer selects rows.
class LayerTapes {
 public:
  LayerTapes(const DecoderConfig& config, const MicroBatchShape& size);

  std::int64_t num_layers() const { return static_cast<std::int64_t>(tape_of_.size()); }
  const ShapeTape& layer(std::int64_t index) const { return tapes_[number(index)]; }
  // Number of the layer's tape in all().
  std::size_t number(std::int64_t index) const {
    return tape_of_.at(static_cast<std::size_t>(index));
  }
  const std::vector<ShapeTape>& all() const { return tapes_; }

 private:
  std::vector<ShapeTape> tapes_;
  std::vector<std::size_t> tape_of_;  // by layer
};

}  // namespace packtrain
