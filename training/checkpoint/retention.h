// Lists the checkpoints of a folder, checks which are usable, and removes old ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/training_state.h"

namespace packtrain {

struct StoredFolder {
  FolderName name;
  std::string path;
};

// Folders of `root` with a checkpoint name, newest step first. Empty when `root` does not exist.
std::vector<StoredFolder> list_folders(const std::string& root);

// The reason why a checkpoint cannot be used, or nothing when it can. Reasons: no readable
// manifest, the manifest of another step, a file that is missing or has another size. Throws
// NewerCheckpoint (manifest.h).
std::optional<std::string> find_fault(const StoredFolder& folder);
// The same. It reads no manifest again that `manifests` knows.
std::optional<std::string> find_fault(const StoredFolder& folder, ManifestCache& manifests);

// A checkpoint and its validation loss.
struct CheckpointLoss {
  std::string path;
  std::int64_t step = 0;
  double loss = 0;
};

// The usable checkpoint of `root` with the lowest validation loss, the newest of equals. Losses of
// another validation set than the newest one's cannot be compared, and do not count. Throws
// NewerCheckpoint.
std::optional<CheckpointLoss> find_best_checkpoint(const std::string& root);

// Removes the checkpoint files in `path`, the manifest first, and the folder when it is then empty.
// Throws Error(kCheckpoint).
void remove_folder(const std::string& path);

// Only one rank at a time may call the functions below. They log what they cannot remove.

// Cleans up after interrupted saves. Removes step-N.tmp, and step-N.old when step-N is usable.
// Renames step-N.old to step-N when step-N does not exist.
void clean_up_leftovers(const std::string& root);

// Frees disk space for a new checkpoint that lacks `num_missing_bytes`. Removes the oldest
// checkpoints of `root` that free enough, and logs it. The `keep.num_newest - 1` newest and those
// with the lowest losses stay. Removes nothing when that would not free enough.
void free_disk_space(const std::string& root, const Retention& keep,
                     std::uint64_t num_missing_bytes);

// Removes usable checkpoints that are not `saved_step` and that `keep` does not select. Unusable
// ones are neither counted nor removed.
void remove_old_checkpoints(const std::string& root, const Retention& keep,
                            std::int64_t saved_step);

}  // namespace packtrain
