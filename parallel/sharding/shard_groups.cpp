#include "parallel/sharding/shard_groups.h"

#include <fmt/format.h>

#include <array>

#include "framework/core/error.h"

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

void check_shard_size(std::int64_t shard_size, int num_ranks) {
  if (num_ranks % shard_size == 0) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("parallel.shard_size is {}, which does not divide {} ranks", shard_size,
                          num_ranks),
              "Choose a divisor of the number of ranks, or auto.");
}

std::vector<int> shard_sizes_of_whole_hosts(const RankHosts& hosts) {
  if (!hosts.are_equal) return {hosts.num_ranks};
  std::vector<int> sizes;
  for (int count = 1; count <= hosts.num_hosts(); ++count) {
    if (hosts.num_hosts() % count == 0) sizes.push_back(count * hosts.ranks_per_host);
  }
  return sizes;
}

ShardingCommunicators connect_shard_groups(int shard_size, const World& world,
                                           const Connect& gather, const Connect& reduce) {
  if (shard_size == world.size()) return {gather(), reduce(), nullptr};
  const int group = world.rank() / shard_size;
  const int place = world.rank() % shard_size;
  const std::unique_ptr<Communicator> all = reduce();
  return {gather()->split(group, place), all->split(group, place), all->split(place, group)};
}

}  // namespace packtrain
