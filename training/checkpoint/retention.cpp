#include "training/checkpoint/retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/manifest_cache.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

void check(const std::error_code& error, const std::string& path, const char* what) {
  if (!error) return;
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}: {}", path, what, error.message()));
}

bool is_link(const StoredFolder& folder) {
  std::error_code ignored;
  return fs::is_symlink(folder.path, ignored);
}

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  check(error, from, "cannot rename");
}

void clean_up(const std::string& root, const StoredFolder& folder) {
  const std::int64_t step = folder.name.step;
  if (folder.name.kind == FolderKind::kTemporary) {
    log_info("removing {}, left by a save that did not end", folder.path);
    remove_folder(folder.path);
  } else if (folder.name.kind == FolderKind::kReplaced) {
    const StoredFolder final{{step, FolderKind::kFinal}, folder_path(root, step)};
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(final.path, ignored))) {
      rename_folder(folder.path, final.path);
    } else if (!find_fault(final)) {
      remove_folder(folder.path);
    }
  }
}

bool is_usable(const StoredFolder& folder, ManifestCache& manifests) {
  try {
    return !find_fault(folder, manifests);
  } catch (const NewerCheckpoint&) {
    return false;  // the folder stays where it is
  }
}

// Newest first. Symbolic links are skipped, because they may belong to the user.
std::vector<StoredFolder> usable_checkpoints(const std::string& root, ManifestCache& manifests) {
  std::vector<StoredFolder> usable;
  for (const StoredFolder& folder : list_folders(root)) {
    if (folder.name.kind != FolderKind::kFinal || is_link(folder)) continue;
    if (is_usable(folder, manifests)) usable.push_back(folder);
  }
  return usable;
}

void remove_checkpoint(const std::string& root, const StoredFolder& folder,
                       ManifestCache& manifests) {
  manifests.forget(folder.path);
  try {
    // Renamed first, so that the next save completes an interrupted removal.
    const std::string doomed = folder_path(root, folder.name.step, FolderKind::kTemporary);
    rename_folder(folder.path, doomed);
    remove_folder(doomed);
  } catch (const Error& error) {
    log_warning("{}", error.message());
  }
}

// Newest first, as `usable` is. Those of the validation set that the newest loss is of.
std::vector<CheckpointLoss> losses_of_one_set(const std::vector<StoredFolder>& usable,
                                              ManifestCache& manifests) {
  std::vector<CheckpointLoss> losses;
  std::string set;
  for (const StoredFolder& folder : usable) {
    const ManifestSummary state = manifests.read(folder.path);
    if (!state.validation_loss || !std::isfinite(*state.validation_loss)) continue;
    if (losses.empty()) set = state.validation_set;
    if (state.validation_set != set) continue;
    losses.push_back({folder.path, state.step, *state.validation_loss});
  }
  return losses;
}

// The steps with the lowest validation losses. Newer steps win ties.
std::set<std::int64_t> best_steps(const std::vector<StoredFolder>& usable, int count,
                                  ManifestCache& manifests) {
  if (count == 0) return {};
  std::vector<CheckpointLoss> losses = losses_of_one_set(usable, manifests);
  std::ranges::sort(losses, {},
                    [](const CheckpointLoss& one) { return std::pair(one.loss, -one.step); });
  std::set<std::int64_t> steps;
  for (const CheckpointLoss& one : losses) {
    if (std::ssize(steps) < count) steps.insert(one.step);
  }
  return steps;
}

// These are kept at any age.
std::set<std::int64_t> selected_steps(const std::vector<StoredFolder>& usable,
                                      const Retention& keep, ManifestCache& manifests) {
  std::set<std::int64_t> steps = best_steps(usable, keep.num_best, manifests);
  steps.insert(keep.steps_in_use.begin(), keep.steps_in_use.end());
  return steps;
}

}  // namespace

std::vector<StoredFolder> list_folders(const std::string& root) {
  std::vector<StoredFolder> folders;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = parse_folder_name(entry->path().filename().string());
    std::error_code ignored;
    if (name && entry->is_directory(ignored)) folders.push_back({*name, entry->path().string()});
  }
  std::sort(folders.begin(), folders.end(), [](const StoredFolder& a, const StoredFolder& b) {
    return std::tuple(-a.name.step, a.name.kind) < std::tuple(-b.name.step, b.name.kind);
  });
  return folders;
}

std::optional<std::string> find_fault(const StoredFolder& folder) {
  ManifestCache none;
  return find_fault(folder, none);
}

std::optional<std::string> find_fault(const StoredFolder& folder, ManifestCache& manifests) {
  try {
    const ManifestSummary manifest = manifests.read(folder.path);
    if (manifest.step != folder.name.step) {
      return fmt::format("{}: its manifest is of step {}", folder.path, manifest.step);
    }
    for (const CheckpointFile& file : manifest.files) {
      const std::string path = folder.path + "/" + file.name;
      std::error_code error;
      const std::uintmax_t size = fs::file_size(path, error);
      if (error) return fmt::format("{}: {}", path, error.message());
      if (size != file.size) {
        return fmt::format("{}: has {} bytes, want {}", path, size, file.size);
      }
    }
  } catch (const NewerCheckpoint&) {
    throw;
  } catch (const Error& error) {
    return error.message();
  }
  return std::nullopt;
}

std::optional<CheckpointLoss> find_best_checkpoint(const std::string& root) {
  ManifestCache manifests;
  std::vector<StoredFolder> usable;
  for (const StoredFolder& folder : list_folders(root)) {
    if (folder.name.kind == FolderKind::kTemporary || find_fault(folder, manifests)) continue;
    usable.push_back(folder);
  }
  const std::vector<CheckpointLoss> losses = losses_of_one_set(usable, manifests);
  const auto best = std::ranges::min_element(losses, {}, &CheckpointLoss::loss);
  if (best == losses.end()) return std::nullopt;
  return *best;
}

void remove_folder(const std::string& path) {
  std::error_code error;
  // without it the folder is not a complete checkpoint
  fs::remove(path + "/" + kManifestName, error);
  check(error, path, "cannot remove the manifest");
  std::vector<fs::path> ours;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_checkpoint_file_name(entry->path().filename().string())) ours.push_back(entry->path());
  }
  check(error, path, "cannot list");
  for (const fs::path& file : ours) {
    fs::remove(file, error);
    check(error, file.string(), "cannot remove");
  }
  fs::remove(path, error);  // not recursive: other files stay, and are reported
  check(error, path, "cannot remove");
}

void clean_up_leftovers(const std::string& root) {
  for (const StoredFolder& folder : list_folders(root)) {
    if (is_link(folder)) continue;
    try {
      clean_up(root, folder);
    } catch (const Error& error) {
      log_warning("{}", error.message());
    }
  }
}

void remove_old_checkpoints(const std::string& root, const Retention& keep,
                            std::int64_t saved_step) {
  ManifestCache own;
  ManifestCache& manifests = keep.manifests == nullptr ? own : *keep.manifests;
  const std::vector<StoredFolder> usable = usable_checkpoints(root, manifests);
  std::set<std::int64_t> kept = selected_steps(usable, keep, manifests);
  kept.insert(saved_step);
  for (auto i = static_cast<std::size_t>(keep.num_newest); i < usable.size(); ++i) {
    if (!kept.contains(usable[i].name.step)) remove_checkpoint(root, usable[i], manifests);
  }
}

void free_disk_space(const std::string& root, const Retention& keep,
                     std::uint64_t num_missing_bytes) {
  ManifestCache own;
  ManifestCache& manifests = keep.manifests == nullptr ? own : *keep.manifests;
  const std::vector<StoredFolder> usable = usable_checkpoints(root, manifests);
  const std::set<std::int64_t> kept = selected_steps(usable, keep, manifests);
  const auto num_left = static_cast<std::size_t>(std::max(keep.num_newest - 1, 0));
  std::vector<const StoredFolder*> doomed;
  std::uint64_t num_bytes = 0;
  for (std::size_t i = usable.size(); i > num_left && num_bytes < num_missing_bytes; --i) {
    if (kept.contains(usable[i - 1].name.step)) continue;
    doomed.push_back(&usable[i - 1]);
    for (const CheckpointFile& file : manifests.read(usable[i - 1].path).files) {
      num_bytes += file.size;
    }
  }
  if (num_bytes < num_missing_bytes) return;
  for (const StoredFolder* folder : doomed) {
    log_warning("removing {} before the new checkpoint is written: there is no room for both",
                folder->path);
    remove_checkpoint(root, *folder, manifests);
  }
}

std::string checkpoints_folder(const std::string& run_folder) {
  return run_folder + "/checkpoints";
}

std::optional<std::string> find_latest_checkpoint(const std::string& root) {
  for (const StoredFolder& folder : list_folders(root)) {
    if (folder.name.kind == FolderKind::kTemporary) continue;
    const auto fault = find_fault(folder);
    if (!fault) return folder.path;
    log_warning("checkpoint passed over: {}", *fault);
  }
  return std::nullopt;
}

std::optional<std::string> find_whole_checkpoint(const std::string& root) {
  auto newest = find_latest_checkpoint(root);
  if (newest) return newest;
  const auto folders = list_folders(root);
  const auto num_damaged = std::ranges::count_if(folders, [](const StoredFolder& folder) {
    return folder.name.kind != FolderKind::kTemporary;
  });
  if (num_damaged == 0) return std::nullopt;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("no checkpoint of {} is whole ({} were tried)", root, num_damaged),
              "Its model is lost with them: restore a checkpoint, or name another run.output or "
              "model.path.");
}

}  // namespace packtrain
