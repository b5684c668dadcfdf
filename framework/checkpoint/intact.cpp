// Which checkpoint a run goes on from: the newest one whose every byte is what was saved.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <sstream>
#include <thread>

#include "framework/checkpoint/agreement.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/retention.h"
#include "framework/support/error.h"
#include "framework/support/hash.h"
#include "framework/support/logging.h"

namespace packtrain {
namespace {

// NFS keeps what it knows of a folder for up to a minute.
constexpr std::chrono::seconds kSeenWithin{75};
constexpr std::chrono::milliseconds kLookEvery{250};

std::vector<StoredFolder> candidates(const std::string& root) {
  std::vector<StoredFolder> folders = list_folders(root);
  std::erase_if(folders, [](const StoredFolder& folder) {
    return folder.name.kind == FolderKind::kTemporary;
  });
  return folders;
}

// Rank 0 looks and tells: a listing may be a minute old on another host, an open by name asks the
// server.
std::vector<StoredFolder> agreed_candidates(const std::string& root, Communicator& control) {
  std::string listed;
  if (control.rank() == 0) {
    for (const StoredFolder& folder : candidates(root)) {
      listed += fmt::format("{} {} ", folder.name.step, static_cast<int>(folder.name.kind));
    }
  }
  std::istringstream told(all_gather_texts(listed, control).front());
  std::vector<StoredFolder> folders;
  std::int64_t step = 0;
  int kind = 0;
  while (told >> step >> kind) {
    const FolderName name{step, static_cast<FolderKind>(kind)};
    folders.push_back({name, root + "/" + folder_name(name.step, name.kind)});
  }
  return folders;
}

// What rank 0 can use, all must be able to open, after a while at the latest. "": it can be used.
std::string fault_of(const StoredFolder& folder, Communicator& control) {
  const bool is_first = control.rank() == 0;
  const std::string of_first =
      all_gather_texts(is_first ? find_fault(folder).value_or("") : "", control).front();
  if (!of_first.empty()) return of_first;
  const auto deadline = std::chrono::steady_clock::now() + kSeenWithin;
  std::optional<std::string> fault = is_first ? std::nullopt : find_fault(folder);
  while (fault && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kLookEvery);
    fault = find_fault(folder);
  }
  const std::vector<std::string> all = all_gather_texts(fault.value_or(""), control);
  const auto blind =
      std::ranges::find_if(all, [](const std::string& text) { return !text.empty(); });
  if (blind == all.end()) return "";
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("rank 0 finds {}, rank {} does not after {} s ({})", folder.path,
                          blind - all.begin(), kSeenWithin.count(), *blind),
              "All ranks must see the same run.output: use a shared file system.");
}

// Of the files that fall to this rank: the first whose bytes are not those that were saved.
std::string damage(const StoredFolder& folder, const Communicator& control) {
  try {
    const Manifest manifest = read_checkpoint_manifest(folder.path);
    const auto stride = static_cast<std::size_t>(control.size());
    for (auto file = static_cast<std::size_t>(control.rank()); file < manifest.files.size();
         file += stride) {
      const std::string path = folder.path + "/" + manifest.files[file].name;
      const std::string digest = hash_file(path, ErrorCategory::kCheckpoint);
      if (digest == manifest.files[file].digest) continue;
      return fmt::format("{}: has the digest {}, want {}", path, digest,
                         manifest.files[file].digest);
    }
  } catch (const NewerCheckpoint&) {
    throw;
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

}  // namespace

std::optional<std::string> find_intact_checkpoint(const std::string& root, Communicator& control) {
  const std::vector<StoredFolder> folders = agreed_candidates(root, control);
  for (const StoredFolder& folder : folders) {
    std::string fault = fault_of(folder, control);
    if (fault.empty()) {
      const std::vector<std::string> damages = all_gather_texts(damage(folder, control), control);
      const auto found =
          std::ranges::find_if(damages, [](const std::string& text) { return !text.empty(); });
      if (found == damages.end()) return folder.path;
      fault = *found;
    }
    if (control.rank() == 0) log_warning("checkpoint passed over: {}", fault);
  }
  if (folders.empty()) return std::nullopt;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("no checkpoint of {} is whole ({} were tried)", root, folders.size()),
              "The run does not start over by itself: remove the folder to let it, or name another "
              "checkpoint in checkpoint.resume.");
}

}  // namespace packtrain
