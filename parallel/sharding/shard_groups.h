// Which ranks share one copy of the model's state: consecutive ones, `shard_size` of them. The
// groups are replicas of each other (hybrid sharding): weights are gathered and gradients scattered
// inside a group, where links are fast, and what is left of the gradients is added up across.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "parallel/communicator.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {

// Throws Error(kConfig) when parallel.shard_size does not divide the number of ranks.
void check_shard_size(std::int64_t shard_size, int num_ranks);

// `wanted` ranks, or by itself: all ranks on one node; with several nodes the ranks of a node,
// where every node has as many and their ranks follow each other, else all ranks (rank 0 logs why).
// Checks `wanted`. Collective.
int choose_shard_size(std::optional<std::int64_t> wanted, World& world);

// Makes a communicator over all ranks of the run. Collective.
using Connect = std::function<std::unique_ptr<Communicator>()>;

// Communicators of this rank's group and across groups. Collective.
ShardingCommunicators connect_shard_groups(int shard_size, const World& world,
                                           const Connect& gather, const Connect& reduce);

}  // namespace packtrain
