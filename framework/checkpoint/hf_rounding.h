// What is lost of a training when its float32 weights are written as bfloat16.
#pragma once

#include <functional>
#include <span>

#include "models/decoder_config.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

// Fills the weights of shards: load_checkpoint, import_weights.
using ReadWeights = std::function<void(std::span<const ShardView>)>;

// Of the elements that training changed: the rounding errors' length over that of the changes,
// sqrt(sum (bfloat16(w) - w)^2 / sum (w - w_start)^2), 0 where nothing changed. Of a large model
// some 30 million elements are read, spread evenly over each parameter. Throws what reading throws.
double rounded_share(const DecoderConfig& config, const ReadWeights& trained,
                     const ReadWeights& start);

}  // namespace packtrain
