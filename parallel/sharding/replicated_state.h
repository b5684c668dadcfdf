// What ranks hold alike: gathered weights that keep their place, and shards that have replicas.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "parallel/sharding/schedule.h"
#include "parallel/sharding/storage.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

struct ReplicatedState {
  std::string name;                 // for people: "the weights of layers.3, as gathered"
  bool shard = false;               // alike on the ranks that own the same part; else on all ranks
  std::vector<at::Tensor> tensors;  // of this rank: 1-D, of whole multiples of 8 bytes
};

// Shards first. Gathered weights are those of the latest train() until the next one begins: of
// units whose slot no other unit takes.
std::vector<ReplicatedState> replicated_state(const ShardedStorage& storage, const UnitTable& table,
                                              const SlotTable& slots);

}  // namespace packtrain
