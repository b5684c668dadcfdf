// The part of a checkpoint that each rank writes, and the report of it that rank 0 receives.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicators/communicator.h"
#include "parallel/sharding/shard_view.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/training_state.h"

namespace packtrain {

// The ranks that own elements, in rank order. Rank 0 when no rank does.
struct Writers {
  std::uint64_t num_bytes = 0;  // sum over all ranks
  int num = 0;
  std::optional<int> own;  // index of this rank among them
};

// Collective. Each rank sends eight bytes.
Writers find_writers(std::span<const ShardView> shards, bool weights_only, Communicator& control);

// Writes and syncs this rank's file. Returns its report: 24 bytes for each range, and names and
// shapes of the parameters whose first element it owns. Throws Error(kCheckpoint).
std::string write_own_file(const std::string& folder, std::span<const ShardView> shards,
                           bool weights_only, const Writers& writers);

// Builds the manifest from the reports of all ranks (empty: the rank wrote no file). Throws
// Error(kInternal) when ranks disagree on a parameter's shape.
Manifest manifest_of(const TrainingState& state, const std::vector<std::string>& reports);

}  // namespace packtrain
