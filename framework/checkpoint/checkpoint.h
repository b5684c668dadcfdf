// Training checkpoints: safetensors shards and one JSON manifest, readable at any number of ranks.
// A folder `step-N` is written as `step-N.tmp`, synced, its manifest last, then renamed. One tensor
// a range: `weight/<parameter>@<first element>`, `exp_avg/...`, `exp_avg_sq/...`, each 1-D.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/sharding/shard_view.h"

namespace packtrain {

// Everything but tensors that a resumed run needs. Written to and read from the manifest.
struct TrainingState {
  std::int64_t step = 0;  // optimizer steps done; the next one is `step`
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  std::int64_t num_ranks = 1;    // that wrote it
  std::int64_t total_steps = 0;  // of the schedule
  std::string config_hash;
  std::string data_fingerprint;  // of the training store
  std::string config_yaml;       // resolved configuration
  std::string model_config;      // config.json text of the model (Hugging Face keys)
  std::string plan_header;       // JSON object of training/plan_header; empty in older checkpoints
  std::string guard;             // JSON object of training/step_guard; the same
};

// Collective over `control`. Writes this rank's shards to `root/step-N.tmp`, agrees that all ranks
// succeeded, rank 0 writes the manifest and renames. Then removes all but the newest `keep` valid
// checkpoints and this one (exact names only, never fewer than two); other ranks do not wait for
// that. A `step-N` that is there already is replaced. `root` is on a file system that all ranks
// share. CUDA shards are copied to host memory, all of a rank's at once. Throws Error(kCheckpoint)
// on every rank when any failed; the temporary folder is removed and older checkpoints stay.
// Returns the folder.
std::string save_checkpoint(const std::string& root, const TrainingState& state,
                            std::span<const ShardView> shards, int keep, Communicator& control);

// The newest folder of `root` with a manifest that verifies (sizes), or nothing; logs a warning for
// each one passed over. `step-N.old` counts where a crash while replacing left no usable `step-N`.
// Not collective.
std::optional<std::string> find_latest_checkpoint(const std::string& root);

// Reads the manifest alone. Throws Error(kCheckpoint) naming the folder and what is wrong.
TrainingState read_checkpoint_state(const std::string& folder);

// Fills `shards` (weight, exp_avg, exp_avg_sq) from a checkpoint written by any number of ranks,
// by range intersection; memory-mapped, converted where the dtype differs (logged for moments,
// which are stored in the dtype they have). The digest of every file that is read from is verified.
// Not collective. Throws Error(kCheckpoint) when a parameter is missing, has another shape, or a
// range is not covered. `with_moments` false reads weights only.
void load_checkpoint(const std::string& folder, std::span<const ShardView> shards,
                     bool with_moments);

bool is_checkpoint(const std::string& folder);  // has a manifest

}  // namespace packtrain
