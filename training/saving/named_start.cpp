#include "training/saving/named_start.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/retention.h"

namespace packtrain {
namespace {

// Without a last slash.
std::string absolute_path(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

// The entry of `state` that stands for `named`.
std::optional<NamedCheckpoint> entry_of(const TrainingState& state, const NamedCheckpoint& named) {
  const auto found = std::ranges::find_if(state.resumed_from, [&](const NamedCheckpoint& ancestor) {
    if (named.digest.empty()) return ancestor.folder == named.folder;
    return ancestor.step == named.step && ancestor.digest == named.digest;
  });
  if (found == state.resumed_from.end()) return std::nullopt;
  return *found;
}

// Newest first. Damaged ones and those that were passed over are left out.
std::vector<StoredFolder> usable_after(std::int64_t step, const std::string& root,
                                       const std::set<std::string>& passed_over) {
  std::vector<StoredFolder> usable;
  for (const StoredFolder& folder : list_folders(root)) {
    if (folder.name.kind == FolderKind::kTemporary || folder.name.step <= step) continue;
    if (passed_over.contains(folder.path)) continue;
    if (const auto fault = find_fault(folder)) {
      log_warning("checkpoint passed over: {}", *fault);
    } else {
      usable.push_back(folder);
    }
  }
  return usable;
}

// Retention may have removed the named checkpoint after newer ones were saved.
NamedCheckpoint named_or_path(const std::string& folder) {
  if (is_checkpoint(folder)) return named_checkpoint(folder, read_checkpoint_manifest(folder));
  return {absolute_path(folder), -1, ""};
}

[[noreturn]] void refuse_other_branch(const std::string& named, const std::string& root,
                                      const std::vector<StoredFolder>& others) {
  std::vector<std::string> names;
  for (const StoredFolder& folder : others) {
    names.push_back(folder_name(folder.name.step, folder.name.kind));
  }
  throw Error(
      ErrorCategory::kConfig,
      fmt::format("checkpoint.resume is {}, but {} has newer checkpoints that do not descend from "
                  "it: {}",
                  named, root, fmt::join(names, ", ")),
      fmt::format("To train another branch from it, give that branch its own run.output, or first "
                  "move these folders out of {}. To continue from the newest of them, set "
                  "checkpoint.resume to auto.",
                  root));
}

}  // namespace

NamedCheckpoint named_checkpoint(const std::string& folder, const Manifest& manifest) {
  return {absolute_path(folder), manifest.state.step, checkpoint_digest(manifest)};
}

std::string find_named_start(const std::string& named, const std::string& root,
                             const std::set<std::string>& passed_over) {
  NamedCheckpoint origin = named_or_path(named);
  const bool is_missing = origin.digest.empty();
  std::string newest;
  std::vector<StoredFolder> others;
  for (const StoredFolder& folder : usable_after(origin.step, root, passed_over)) {
    const auto entry = entry_of(read_checkpoint_state(folder.path), origin);
    if (!entry) {
      others.push_back(folder);
    } else if (newest.empty()) {
      newest = folder.path;
      origin.step = entry->step;
    }
  }
  // the error of a checkpoint that is not there
  if (is_missing && newest.empty()) static_cast<void>(read_checkpoint_state(named));
  std::erase_if(others, [&](const StoredFolder& one) { return one.name.step <= origin.step; });
  if (!others.empty()) refuse_other_branch(named, root, others);
  if (newest.empty()) return named;
  log_info(
      "checkpoint.resume: an earlier start took {}; this one continues from {}, the newest "
      "checkpoint that descends from it",
      named, newest);
  return newest;
}

}  // namespace packtrain
