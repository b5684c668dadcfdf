// Sends known values through every slot before training. It checks gathers and reductions on this
// machine, with the path and the memory that training uses.
#pragma once

#include "parallel/sharding/shard_ranks.h"
#include "parallel/sharding/sharding_streams.h"
#include "parallel/sharding/storage.h"

namespace packtrain {

struct SelfTestParts {
  const ShardedStorage& storage;  // after begin_step(false)
  const UnitTable& table;
  const SlotTable& slots;
  const ShardRanks& ranks;
  const ShardingStreams& streams;
};

// Call it before weights are loaded, while no work uses the memory. It leaves zeros in weights and
// gradients. Collective; returns when all is done. Throws Error(kDevice) on the rank with a wrong
// element, naming collective, path, rank, unit and element.
void test_collectives(const SelfTestParts& parts);

}  // namespace packtrain
