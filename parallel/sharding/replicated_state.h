// State that is equal on several ranks: gathered weights with a slot of their own, and shards that
// have replicas.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "parallel/sharding/schedule.h"
#include "parallel/sharding/storage.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

struct ReplicatedState {
  std::string name;                 // in messages: "the weights of layers.3, as gathered"
  bool shard = false;               // equal on ranks that own the same part; else on all ranks
  std::vector<at::Tensor> tensors;  // of this rank: 1-D, of whole multiples of 8 bytes
};

// Shards come first. Gathered weights are those of units that do not share their slot. They belong
// to the latest train() until the next one begins.
std::vector<ReplicatedState> replicated_state(const ShardedStorage& storage, const UnitTable& table,
                                              const SlotTable& slots);

}  // namespace packtrain
