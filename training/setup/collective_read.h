// Reads a model's state once. The ranks of the first replica read files, each its own part. Every
// other replica receives the state over the communicator between replicas.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "framework/core/error.h"
#include "parallel/communicators/communicator.h"
#include "parallel/sharding/shard_view.h"
#include "parallel/sharding/sharded_model.h"

namespace packtrain {

struct ReadFailure {
  Error error;             // of the first rank that failed
  bool is_damage = false;  // every rank that failed found a damaged checkpoint
};

// Collective. Calls `read` with the shards of each rank of the first replica, which it fills.
// Returns the failure, the same on every rank, or nothing. On success all replicas hold the state.
std::optional<ReadFailure> collective_read(
    ShardedModel& model, Communicator& control,
    const std::function<void(std::span<const ShardView>)>& read);

}  // namespace packtrain
