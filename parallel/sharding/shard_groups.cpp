#include "parallel/sharding/shard_groups.h"

#include <fmt/format.h>

#include <array>

#include "framework/support/error.h"
#include "framework/support/logging.h"

namespace packtrain {
namespace {

// Whether all nodes have as many ranks, numbered one after the other.
bool nodes_are_alike(World& world) {
  const int first = world.rank() - world.local_rank();
  std::array<std::int64_t, 3> worst = {world.local_size(), -world.local_size(),
                                       first % world.local_size()};
  world.control().all_reduce(worst.data(), worst.size(), DataType::kInt64, ReduceOp::kMax, nullptr);
  return worst[0] == -worst[1] && worst[2] == 0;
}

}  // namespace

void check_shard_size(std::int64_t shard_size, int num_ranks) {
  if (num_ranks % shard_size == 0) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("parallel.shard_size is {}, which does not divide {} ranks", shard_size,
                          num_ranks),
              "Choose a divisor of the number of ranks, or auto.");
}

int choose_shard_size(std::optional<std::int64_t> wanted, World& world) {
  if (wanted) {
    check_shard_size(*wanted, world.size());
    return static_cast<int>(*wanted);
  }
  const bool alike = nodes_are_alike(world);
  if (alike) return world.local_size();
  if (world.rank() == 0) {
    log_warning(
        "nodes have different numbers of ranks, or ranks that do not follow each other: the model "
        "is sharded over all {} ranks, across nodes (parallel.shard_size)",
        world.size());
  }
  return world.size();
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
