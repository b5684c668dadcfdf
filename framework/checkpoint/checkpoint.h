// Training checkpoints: safetensors shards and one JSON manifest, readable at any number of ranks.
// A folder `step-N` is written as `step-N.tmp`, synced, its manifest last, then renamed. One tensor
// a range: `weight/<parameter>@<first element>`, `exp_avg/...`, `exp_avg_sq/...`, each 1-D.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "framework/checkpoint/training_state.h"
#include "parallel/communicator.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

// Collective over `control`. Writes this rank's shards to `root/step-N.tmp`, agrees that all ranks
// succeeded, rank 0 writes the manifest and renames. Then removes the valid checkpoints that `keep`
// does not name (exact names only); other ranks do not wait for
// that. A `step-N` that is there already is replaced. `root` is on a file system that all ranks
// share. CUDA shards are copied to host memory, all of a rank's at once. Throws Error(kCheckpoint)
// on every rank when any failed; the temporary folder is removed and older checkpoints stay.
// Returns the folder.
std::string save_checkpoint(const std::string& root, const TrainingState& state,
                            std::span<const ShardView> shards, const Retention& keep,
                            Communicator& control);

// One rank, after save_checkpoint(): writes what `state` says of the loss of weights that are saved
// already, and of what is still due of them, into their manifest, at once or not at all; then
// removes what `keep` does not name any more. Throws nothing: what cannot be done is logged.
void amend_checkpoint(const std::string& root, const TrainingState& state,
                      const Retention& keep) noexcept;

// Collective: the newest folder of `root` in which every file has the digest that its manifest
// names, or nothing where there is no checkpoint; ranks share the reading. Rank 0 logs a warning
// for each one passed over. Throws Error(kCheckpoint), the same on every rank, when there are
// checkpoints and none is whole, or when ranks do not see the same ones.
std::optional<std::string> find_intact_checkpoint(const std::string& root, Communicator& control);

// Fills `shards` (weight, exp_avg, exp_avg_sq) from a checkpoint written by any number of ranks,
// by range intersection; memory-mapped, converted where the dtype differs (logged for moments,
// which are stored in the dtype they have). The digest of every file that is read from is verified.
// Not collective. Throws Error(kCheckpoint) when a parameter is missing, has another shape, or a
// range is not covered. `with_moments` false reads weights only.
void load_checkpoint(const std::string& folder, std::span<const ShardView> shards,
                     bool with_moments);

}  // namespace packtrain
