// Finds the newest usable checkpoint, from which a run resumes.
#include <fcntl.h>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "parallel/communicators/collectives.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/retention.h"

namespace packtrain {
namespace {

// NFS clients cache folder attributes for up to a minute.
constexpr std::chrono::seconds kSeenWithin{75};
constexpr std::chrono::milliseconds kLookEvery{250};

// The name of the newest usable folder, or "".
std::string find_by_name(const std::string& root, const std::set<std::string>& passed_over) {
  std::size_t num_tried = 0;
  for (const StoredFolder& folder : list_folders(root)) {
    if (folder.name.kind == FolderKind::kTemporary) continue;
    ++num_tried;
    if (passed_over.contains(folder.path)) continue;
    const std::optional<std::string> fault = find_fault(folder);
    if (!fault) return folder_name(folder.name.step, folder.name.kind);
    log_warning("checkpoint passed over: {}", *fault);
  }
  if (num_tried == 0) return "";
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("no checkpoint of {} is whole ({} were tried)", root, num_tried),
              "The run does not start over by itself: remove the folder to let it, or name another "
              "checkpoint in checkpoint.resume.");
}

// Waits until this rank can open the manifest, or returns why it cannot. On NFS a listing can be a
// minute old, but opening a file by name asks the server.
std::string wait_to_see(const std::string& folder) {
  const auto deadline = std::chrono::steady_clock::now() + kSeenWithin;
  for (;;) {
    try {
      const Descriptor manifest(folder + "/" + kManifestName, O_RDONLY, ErrorCategory::kCheckpoint);
      return "";
    } catch (const Error& error) {
      if (std::chrono::steady_clock::now() >= deadline) return error.message();
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace

void wait_until_seen(const std::string& folder, Communicator& control) {
  const std::string fault = control.rank() == 0 ? "" : wait_to_see(folder);
  std::optional<Error> blind;
  if (!fault.empty()) blind = Error(ErrorCategory::kCheckpoint, fault);
  const auto first = first_rank_error(blind, control);
  if (!first) return;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("rank 0 finds {}, rank {} does not after {} s ({})", folder, first->rank,
                          kSeenWithin.count(), first->error.message()),
              "All ranks must see the same run.output: use a shared file system.");
}

std::optional<std::string> find_resumable_checkpoint(const std::string& root,
                                                     const std::set<std::string>& passed_over,
                                                     Communicator& control) {
  const std::string name =
      run_on_first_rank(control, [&] { return find_by_name(root, passed_over); });
  if (name.empty()) return std::nullopt;
  std::string folder = root + "/" + name;
  wait_until_seen(folder, control);
  return folder;
}

}  // namespace packtrain
