// Training checkpoints: safetensors shards and one JSON manifest, readable with any number of
// ranks. A folder `step-N` is written as `step-N.tmp`, synced, its manifest last, then renamed.
// Each range of a parameter is one 1-D tensor `weight/<parameter>@<first element>`, and one for
// each tensor of the optimizer's state, with its name instead of `weight`. Ranks that own no
// elements write no file.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>

#include "parallel/communicators/communicator.h"
#include "parallel/sharding/shard_view.h"
#include "training/checkpoint/read_counts.h"
#include "training/checkpoint/training_state.h"

namespace packtrain {

// Collective over `control`. Each rank writes its shards to `root/step-N.tmp`. When all have
// succeeded, rank 0 writes the manifest, renames the folder and removes the usable checkpoints that
// `keep` does not select. Only folders with exact names are removed. Other ranks do not wait for
// the removal. An existing `step-N` is replaced. `root` is on a file system that all ranks share.
// All CUDA shards of a rank are copied to host memory at the same time. Returns the folder.
// Throws Error(kCheckpoint) on every rank when any rank failed. The temporary folder is then
// removed and older checkpoints stay.
std::string save_checkpoint(const std::string& root, const TrainingState& state,
                            std::span<const ShardView> shards, const Retention& keep,
                            Communicator& control);

// Called by one rank after save_checkpoint(). Writes the loss of saved weights, and what is still
// due for them, from `state` into their manifest, atomically. Then removes the checkpoints that
// `keep` no longer selects. Does not throw: failures are logged.
void amend_checkpoint(const std::string& root, const TrainingState& state,
                      const Retention& keep) noexcept;

// Collective. Returns the newest checkpoint of `root` that is not in `passed_over` and has all
// files with their sizes. Nothing when there is no checkpoint. Rank 0 searches, logs a warning for
// each checkpoint that it passes over, and sends the name. Other ranks wait until they see the
// folder. Contents are checked when they are read.
// Throws Error(kCheckpoint) on every rank with the same message when checkpoints exist but none is
// usable. It also throws when ranks see different checkpoints, or when a newer version wrote the
// newest.
std::optional<std::string> find_resumable_checkpoint(const std::string& root,
                                                     const std::set<std::string>& passed_over,
                                                     Communicator& control);

// Collective. Returns when every rank sees the checkpoint `folder`, which rank 0 has found. Throws
// as find_resumable_checkpoint() does when a rank does not see it.
void wait_until_seen(const std::string& folder, Communicator& control);

// Not collective. Fills `shards` (weight and optimizer state) from a checkpoint written by any
// number of ranks. Elements are converted when dtypes differ; with the optimizer's state the
// conversion is logged. `with_optimizer_state` false reads weights only. Only the files and the
// blocks of 256 KiB that contain parts of `shards` are read and checked. Files of older checkpoints
// are checked as a whole. Throws Error(kCheckpoint) when a parameter is missing, has another shape,
// or has no moments. Throws DamagedCheckpoint (manifest.h) when a range is not covered or bytes
// differ from those saved.
ReadCounts load_checkpoint(const std::string& folder, std::span<const ShardView> shards,
                           bool with_optimizer_state);

}  // namespace packtrain
