// The commit protocol. Every rank that owns elements writes and syncs its file in step-N.tmp. When
// all ranks report success, rank 0 writes the manifest, syncs, and renames the folder. After a
// crash at any point the older checkpoints are complete, and the new one is complete or invisible.
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/core/units.h"
#include "parallel/communicators/collectives.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/checkpoint_error.h"
#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/retention.h"
#include "training/checkpoint/save_report.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

// Paths of a checkpoint while it is written and after it.
struct SavePaths {
  std::string root;
  std::string final;
  std::string temporary;
  std::string replaced;

  SavePaths(const std::string& folder, std::int64_t step)
      : root(folder),
        final(folder_path(folder, step)),
        temporary(folder_path(folder, step, FolderKind::kTemporary)),
        replaced(folder_path(folder, step, FolderKind::kReplaced)) {}
};

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_at(from, fmt::format("cannot rename to {}: {}", to, error.message()));
}

std::uint64_t free_bytes(const std::string& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) fail_at(folder, fmt::format("cannot tell the free space: {}", error.message()));
  return space.available;
}

// Called by rank 0 before anything is written.
void prepare_folder(const SavePaths& paths, std::uint64_t bytes_needed, const Retention& keep) {
  const bool is_new = !exists(paths.root);
  make_folders(paths.root, ErrorCategory::kCheckpoint);
  if (is_new) {
    const std::string parent = fs::path(paths.root).parent_path().string();
    sync_folder(parent.empty() ? "." : parent, ErrorCategory::kCheckpoint);
  }
  clean_up_leftovers(paths.root);
  std::uint64_t free = free_bytes(paths.root);
  if (free < bytes_needed) {
    free_disk_space(paths.root, keep, bytes_needed - free);
    free = free_bytes(paths.root);
  }
  if (free < bytes_needed) {
    throw Error(
        ErrorCategory::kCheckpoint,
        fmt::format("{}: a checkpoint takes {}, the disk has {} free beside the "
                    "checkpoints that are kept (checkpoint.keep: {})",
                    paths.root, format_bytes(bytes_needed), format_bytes(free), keep.num_newest),
        fmt::format("Free {}, or move run.output to a larger disk; then start the same "
                    "command again.",
                    format_bytes(bytes_needed - free)));
  }
  std::error_code error;
  if (!fs::create_directory(paths.temporary, error)) {
    fail_at(paths.temporary, error ? error.message() : "is in the way, and not ours to remove");
  }
}

// Called by rank 0. Renames the temporary folder to step-N. An existing step-N is first renamed to
// step-N.old, where find_latest_checkpoint still finds it, and removed last.
void commit(const SavePaths& paths, const Manifest& manifest) {
  write_text_atomically(paths.temporary + "/" + kManifestName, manifest_text(manifest),
                        ErrorCategory::kCheckpoint);
  const std::int64_t step = manifest.state.step;
  if (exists(paths.final)) {
    const bool usable = !find_fault({{step, FolderKind::kFinal}, paths.final});
    if (exists(paths.replaced) && usable) remove_folder(paths.replaced);
    if (exists(paths.replaced)) {
      remove_folder(paths.final);  // damaged; step-N.old has the usable one
    } else {
      rename_folder(paths.final, paths.replaced);
    }
  }
  rename_folder(paths.temporary, paths.final);
  sync_folder(paths.root, ErrorCategory::kCheckpoint);
}

// Called by rank 0 after a failure on any rank. The next save retries what cannot be removed.
void discard(const SavePaths& paths) noexcept {
  try {
    if (exists(paths.temporary)) remove_folder(paths.temporary);
  } catch (const std::exception&) {
  }
}

void write_and_commit(const SavePaths& paths, const TrainingState& state,
                      std::span<const ShardView> shards, const Retention& keep,
                      Communicator& control) {
  const std::string what = fmt::format("{} was not saved", paths.final);
  const bool leads = control.rank() == 0;
  const Writers writers = find_writers(shards, state.weights_only, control);
  collective_try(what, control, [&] {
    if (leads) prepare_folder(paths, writers.num_bytes, keep);
  });
  try {
    std::string report;
    collective_try(what, control, [&] {
      if (writers.own) {
        report = write_own_file(paths.temporary, shards, state.weights_only, writers);
      }
    });
    const std::vector<std::string> reports = gather_texts(report, 0, control);
    collective_try(what, control, [&] {
      if (leads) commit(paths, manifest_of(state, reports));
    });
  } catch (const Error&) {
    if (leads) discard(paths);
    throw;
  }
}

// Called by rank 0 once a checkpoint is complete. Errors here must not fail the save.
void remove_what_is_not_kept(const std::string& root, const Retention& keep, std::int64_t step) {
  try {
    clean_up_leftovers(root);  // removes step-N.old when this step was saved before
    remove_old_checkpoints(root, keep, step);
  } catch (const std::exception& error) {
    log_warning("{}: older checkpoints were not removed: {}", root, error.what());
  }
}

}  // namespace

std::string save_checkpoint(const std::string& root, const TrainingState& state,
                            std::span<const ShardView> shards, const Retention& keep,
                            Communicator& control) {
  const SavePaths paths(root, state.step);
  write_and_commit(paths, state, shards, keep, control);
  if (control.rank() == 0) remove_what_is_not_kept(root, keep, state.step);
  return paths.final;
}

void amend_checkpoint(const std::string& root, const TrainingState& state,
                      const Retention& keep) noexcept {
  const std::string folder = folder_path(root, state.step);
  try {
    if (!is_checkpoint(folder)) return;  // its save failed and was reported
    Manifest manifest = read_checkpoint_manifest(folder);
    manifest.state.validation_loss = state.validation_loss;
    manifest.state.best_losses = state.best_losses;
    manifest.state.validation_set = state.validation_set;
    manifest.state.early_stopping = state.early_stopping;
    manifest.state.evaluation_due = state.evaluation_due;
    manifest.state.samples_due = state.samples_due;
    write_text_atomically(folder + "/" + kManifestName, manifest_text(manifest),
                          ErrorCategory::kCheckpoint);
    remove_what_is_not_kept(root, keep, state.step);
  } catch (const std::exception& error) {
    log_warning("{}: the loss of this checkpoint was not written into it: {}", folder,
                error.what());
  }
}

}  // namespace packtrain
