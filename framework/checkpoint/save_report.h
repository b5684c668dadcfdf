// What each rank writes of a checkpoint, and what it tells rank 0 of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/training_state.h"
#include "parallel/communicator.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

// The ranks that own something, in their order; rank 0 where none does.
struct Writers {
  std::uint64_t num_bytes = 0;  // of all
  int num = 0;
  std::optional<int> own;  // the place of this rank among them
};

// Collective. Eight bytes a rank are sent.
Writers find_writers(std::span<const ShardView> shards, bool weights_only, Communicator& control);

// Writes and syncs this rank's file; returns its report: names and shapes of the parameters whose
// first element it holds, and 24 bytes a range. Throws Error(kCheckpoint).
std::string write_own_file(const std::string& folder, std::span<const ShardView> shards,
                           bool weights_only, const Writers& writers);

// From the reports of all ranks (empty: wrote none). Throws Error(kInternal) where ranks disagree
// on a parameter's shape.
Manifest manifest_of(const TrainingState& state, const std::vector<std::string>& reports);

}  // namespace packtrain
