// The random weights that a model without a folder begins with.
#pragma once

#include <cstdint>

#include "parallel/sharding/sharded_model.h"

namespace packtrain {

// Fills `shard`, a part of the parameter `spec`. Encoded values are made and quantised some at a
// time.
void initialize_weight(const ParameterSpec& spec, std::uint64_t seed, const ShardView& shard);

// Fills this rank's weights but an adapter's, the same for any number of ranks. Waits for the
// device.
void initialize_weights(std::uint64_t seed, ShardedModel& model);

}  // namespace packtrain
