// Shard groups: `shard_size` consecutive ranks share one copy of the model's state. The groups are
// replicas of each other (hybrid sharding). Weights are gathered and gradients scattered inside a
// group, where links are fast. The scattered gradients are then summed across groups.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/process_mesh.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/shard_ranks.h"

namespace packtrain {

// The hosts of the ranks of a run.
struct RankHosts {
  int num_ranks = 1;
  int ranks_per_host = 1;  // of the host with the most ranks
  // True when all hosts have equal numbers of ranks, and the ranks of a host are consecutive.
  bool are_equal = true;

  int num_hosts() const { return (num_ranks + ranks_per_host - 1) / ranks_per_host; }
};

RankHosts on_one_host(int num_ranks);
// Collective. The hosts of this run.
RankHosts find_hosts(World& world);

// The shard sizes that `auto` chooses from, ascending; the last one is all ranks. With equal hosts
// they are whole numbers of hosts that divide the number of hosts. Otherwise only all ranks.
std::vector<int> shard_sizes_of_whole_hosts(const RankHosts& hosts);

// Makes a communicator over all ranks of the run. Collective.
using Connect = std::function<std::unique_ptr<Communicator>()>;

// Collective. Communicators along the axes of the mesh: two along shard, one along replicate.
ShardingCommunicators connect_shard_groups(const ProcessMesh& mesh, const Connect& gather,
                                           const Connect& reduce);

}  // namespace packtrain
