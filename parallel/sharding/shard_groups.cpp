#include "parallel/sharding/shard_groups.h"

#include <array>
#include <cstdint>

namespace packtrain {

RankHosts on_one_host(int num_ranks) {
  return {num_ranks, num_ranks, true};
}

RankHosts find_hosts(World& world) {
  const int first = world.rank() - world.local_rank();
  std::array<std::int64_t, 3> worst = {world.local_size(), -world.local_size(),
                                       first % world.local_size()};
  world.control().all_reduce(worst.data(), worst.size(), DataType::kInt64, ReduceOp::kMax, nullptr);
  return {world.size(), static_cast<int>(worst[0]), worst[0] == -worst[1] && worst[2] == 0};
}

std::vector<int> shard_sizes_of_whole_hosts(const RankHosts& hosts) {
  if (!hosts.are_equal) return {hosts.num_ranks};
  std::vector<int> sizes;
  for (int count = 1; count <= hosts.num_hosts(); ++count) {
    if (hosts.num_hosts() % count == 0) sizes.push_back(count * hosts.ranks_per_host);
  }
  return sizes;
}

ShardingCommunicators connect_shard_groups(const ProcessMesh& mesh, const Connect& gather,
                                           const Connect& reduce) {
  if (mesh.replicate.size == 1) return {gather(), reduce(), nullptr};
  const int group = mesh.replicate.rank;
  const int place = mesh.shard.rank;
  const std::unique_ptr<Communicator> all = reduce();
  return {gather()->split(group, place), all->split(group, place), all->split(place, group)};
}

}  // namespace packtrain
