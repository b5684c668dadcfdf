// Weights of a checkpoint whose model stores them in another encoding than the checkpoint.
#pragma once

#include <cstdint>
#include <string>

#include "parallel/sharding/shard_view.h"
#include "training/checkpoint/shard_reader.h"

namespace packtrain {

// Fills shard.weight from the checkpoint: as stored, decoded, or encoded. Throws
// Error(kCheckpoint) when the parameter has another shape.
void read_weight(ShardReader& reader, const ShardView& shard);

// Elements [begin, begin + n) of a parameter, decoded if it is stored encoded, to `destination`
// [n].
void read_decoded(ShardReader& reader, const std::string& parameter, std::int64_t begin,
                  const at::Tensor& destination);

}  // namespace packtrain
