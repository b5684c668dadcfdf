// Which checkpoints a folder holds, which of them are usable, and removing those not needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/checkpoint/folder_names.h"
#include "framework/checkpoint/training_state.h"

namespace packtrain {

struct StoredFolder {
  FolderName name;
  std::string path;
};

// Folders of `root` with a name of ours, newest step first. Empty when `root` does not exist.
std::vector<StoredFolder> list_folders(const std::string& root);

// Why a checkpoint cannot be used: no readable manifest, the manifest of another step, or a file
// that is missing or has another size. Nothing when it can. Throws NewerCheckpoint (manifest.h).
std::optional<std::string> find_fault(const StoredFolder& folder);

// Removes our files in `path`, the manifest first, and the folder when nothing else is in it.
// Throws Error(kCheckpoint).
void remove_folder(const std::string& path);

// The functions below are for one rank at a time, while saving. They log what they cannot remove.

// Removes what crashed saves left: step-N.tmp, and step-N.old where step-N is usable; puts
// step-N.old back where step-N is gone.
void clean_up_leftovers(const std::string& root);

// Where a new checkpoint lacks so many bytes of room: removes the oldest of `root` that hold as
// many, and says so; `keep.num_newest - 1` of the newest stay, and those of the lowest losses.
// Removes nothing where that would not do.
void free_disk_space(const std::string& root, const Retention& keep,
                     std::uint64_t num_missing_bytes);

// Removes usable checkpoints but those that `keep` names and `saved_step`. What cannot be used is
// neither counted nor touched.
void remove_old_checkpoints(const std::string& root, const Retention& keep,
                            std::int64_t saved_step);

}  // namespace packtrain
