// Known values through every slot before training: whether gathers and reductions do on this
// machine, by the path taken and in the memory used, what they promise.
#pragma once

#include "framework/device/device.h"
#include "parallel/communicator.h"
#include "parallel/sharding/storage.h"

namespace packtrain {

struct SelfTestParts {
  const ShardedStorage& storage;  // after begin_step(false)
  const UnitTable& table;
  const SlotTable& slots;
  Communicator& gather;
  Stream& gather_stream;
  Communicator& reduce;
  Stream& reduce_stream;
  Communicator* replicas;  // across groups, on the reduce stream; null for one group
};

// Before weights are loaded, with the memory at rest; leaves zeros in weights and gradients.
// Collective; returns when all is done. Throws Error(kDevice), on the rank where something is
// wrong, naming collective, path, rank, unit and the first wrong element.
void test_collectives(const SelfTestParts& parts);

}  // namespace packtrain
