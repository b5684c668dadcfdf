#include "parallel/communicators/process_mesh.h"

#include <fmt/format.h>

#include "framework/core/error.h"

namespace packtrain {

void check_shard_size(std::int64_t shard_size, int num_ranks) {
  if (num_ranks % shard_size == 0) return;
  throw Error(ErrorCategory::kConfig,
              fmt::format("parallel.shard_size is {}, which does not divide {} ranks", shard_size,
                          num_ranks),
              "Choose a divisor of the number of ranks, or auto.");
}

ProcessMesh make_process_mesh(const World& world, std::int64_t shard_size) {
  check_shard_size(shard_size, world.size());
  const auto size = static_cast<int>(shard_size);
  return {.replicate = {.size = world.size() / size, .rank = world.rank() / size},
          .shard = {.size = size, .rank = world.rank() % size}};
}

int data_parallel_size(const World& world) {
  return world.size();
}

MeshAxis axis_of(const Communicator* communicator) {
  if (communicator == nullptr) return {};
  return {.size = communicator->size(), .rank = communicator->rank()};
}

}  // namespace packtrain
