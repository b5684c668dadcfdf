// Measures how much of a training is lost when float32 weights are written as bfloat16.
#pragma once

#include <functional>
#include <span>

#include "models/layers/decoder_config.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

// Fills the weights of shards, as load_checkpoint and import_weights do.
using ReadWeights = std::function<void(std::span<const ShardView>)>;

// Relative rounding error over the elements that training changed: sqrt(sum (bfloat16(w) - w)^2 /
// sum (w - w_start)^2), 0 when nothing changed. For a large model about 30 million elements are
// read, spread evenly over each parameter. Rethrows errors of the readers.
double rounded_share(const DecoderConfig& config, const ReadWeights& trained,
                     const ReadWeights& start);

}  // namespace packtrain
