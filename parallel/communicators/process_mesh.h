// The ranks of a run as a grid with named axes. Code that depends on a number of ranks says which
// axis it means. Consecutive ranks along the axis `shard` share one copy of the model's state. The
// ranks along the axis `replicate` hold the same part of the state, each in another copy. A World
// has the facts of the launch: rank, host, number of processes.
#pragma once

#include <cstdint>

#include "parallel/communicators/communicator.h"
#include "parallel/communicators/world.h"

namespace packtrain {

// The ranks along one axis that differ in nothing else.
struct MeshAxis {
  int size = 1;
  int rank = 0;  // index of this process
};

struct ProcessMesh {
  MeshAxis replicate;
  MeshAxis shard;

  // Ranks that train different micro-batches of a step: those of both axes.
  int data_parallel_size() const { return replicate.size * shard.size; }
  // Index of this process among them: its micro-batches are StepPlan::ranks[data_parallel_rank()].
  int data_parallel_rank() const { return replicate.rank * shard.size + shard.rank; }
};

// Throws Error(kConfig) when parallel.shard_size does not divide the number of ranks.
void check_shard_size(std::int64_t shard_size, int num_ranks);

// `shard_size`: ranks that share one copy of the model's state. Throws as check_shard_size().
ProcessMesh make_process_mesh(const World& world, std::int64_t shard_size);

// ProcessMesh::data_parallel_size() of every mesh of these ranks. For code that runs before the
// shard size is chosen.
int data_parallel_size(const World& world);

// The axis of a communicator's ranks. Null: an axis of one rank.
MeshAxis axis_of(const Communicator* communicator);

}  // namespace packtrain
