// Training checkpoints: safetensors shards and one JSON manifest, readable at any number of ranks.
// A folder `step-N` is written as `step-N.tmp`, synced, its manifest last, then renamed. One tensor
// a range: `weight/<parameter>@<first element>`, `exp_avg/...`, `exp_avg_sq/...`, each 1-D. Ranks
// that own nothing write no file.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>

#include "framework/checkpoint/read_counts.h"
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

// Collective: the newest checkpoint of `root` that is not in `passed_over` and whose files are
// there with their sizes, or nothing where there is no checkpoint. Rank 0 looks and tells the
// others, who wait until they see the folder; it logs a warning for each one passed over. Bytes are
// checked when they are read. Throws Error(kCheckpoint), the same on every rank, when there are
// checkpoints and none can be used, when ranks do not see the same ones, or when a newer version
// wrote the newest.
std::optional<std::string> find_resumable_checkpoint(const std::string& root,
                                                     const std::set<std::string>& passed_over,
                                                     Communicator& control);

// Fills `shards` (weight, exp_avg, exp_avg_sq) from a checkpoint written by any number of ranks,
// by range intersection; converted where the dtype differs (logged for moments, which are stored in
// the dtype they have). Opens the files that hold parts of `shards`, and reads and checks these
// parts, to whole blocks of 256 KiB; files of older checkpoints are checked as a whole.
// Not collective. Throws Error(kCheckpoint) when a parameter is missing, has another shape, or has
// no moments; DamagedCheckpoint (manifest.h) when a range is not covered or bytes are not those
// that were saved. `with_moments` false reads weights only.
ReadCounts load_checkpoint(const std::string& folder, std::span<const ShardView> shards,
                           bool with_moments);

}  // namespace packtrain
