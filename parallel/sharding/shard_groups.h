// Which ranks share one copy of the model's state: consecutive ones, `shard_size` of them. The
// groups are replicas of each other (hybrid sharding): weights are gathered and gradients scattered
// inside a group, where links are fast, and what is left of the gradients is added up across.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {

// On which hosts the ranks of a run are.
struct RankHosts {
  int num_ranks = 1;
  int ranks_per_host = 1;  // of the host that has most
  // Every host has as many ranks, and they follow each other.
  bool are_equal = true;

  int num_hosts() const { return (num_ranks + ranks_per_host - 1) / ranks_per_host; }
};

RankHosts on_one_host(int num_ranks);
// Of this run. Collective.
RankHosts find_hosts(World& world);

// Throws Error(kConfig) when parallel.shard_size does not divide the number of ranks.
void check_shard_size(std::int64_t shard_size, int num_ranks);

// The shard sizes that `auto` chooses from, ascending; the last one is all ranks. Hosts that are
// alike: whole hosts, of which all groups have as many. Others: all ranks alone.
std::vector<int> shard_sizes_of_whole_hosts(const RankHosts& hosts);

// Makes a communicator over all ranks of the run. Collective.
using Connect = std::function<std::unique_ptr<Communicator>()>;

// Communicators of this rank's group and across groups. Collective.
ShardingCommunicators connect_shard_groups(int shard_size, const World& world,
                                           const Connect& gather, const Connect& reduce);

}  // namespace packtrain
