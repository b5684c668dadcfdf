// Which checkpoint a run goes on from: the newest one whose every byte is what was saved.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "framework/checkpoint/agreement.h"
#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/retention.h"
#include "framework/support/error.h"
#include "framework/support/hash.h"
#include "framework/support/logging.h"

namespace packtrain {
namespace {

std::vector<StoredFolder> candidates(const std::string& root) {
  std::vector<StoredFolder> folders = list_folders(root);
  std::erase_if(folders, [](const StoredFolder& folder) {
    return folder.name.kind == FolderKind::kTemporary;
  });
  return folders;
}

std::string names_of(const std::vector<StoredFolder>& folders) {
  std::string names;
  for (const StoredFolder& folder : folders) {
    names += folder_name(folder.name.step, folder.name.kind) + " ";
  }
  return names;
}

// All ranks must see the same folders, or each would go on from somewhere else.
void check_shared(const std::string& root, const std::string& seen, Communicator& control) {
  const std::vector<std::string> all = all_gather_texts(seen, control);
  const auto other =
      std::ranges::find_if(all, [&](const std::string& names) { return names != all.front(); });
  if (other == all.end()) return;
  const auto shown = [](const std::string& names) {
    return names.empty() ? std::string("no checkpoint") : names.substr(0, names.size() - 1);
  };
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("in {}, rank 0 finds {}, rank {} finds {}", root, shown(all.front()),
                          other - all.begin(), shown(*other)),
              "All ranks must see the same run.output: use a shared file system.");
}

// Of the files that fall to this rank: the first whose bytes are not those that were saved.
std::string damage(const StoredFolder& folder, const Communicator& control) {
  if (const auto fault = find_fault(folder)) return *fault;
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
  const std::vector<StoredFolder> folders = candidates(root);
  check_shared(root, names_of(folders), control);
  for (const StoredFolder& folder : folders) {
    const std::vector<std::string> damages = all_gather_texts(damage(folder, control), control);
    const auto found =
        std::ranges::find_if(damages, [](const std::string& text) { return !text.empty(); });
    if (found == damages.end()) return folder.path;
    if (control.rank() == 0) log_warning("checkpoint passed over: {}", *found);
  }
  if (folders.empty()) return std::nullopt;
  throw Error(ErrorCategory::kCheckpoint,
              fmt::format("no checkpoint of {} is whole ({} were tried)", root, folders.size()),
              "The run does not start over by itself: remove the folder to let it, or name another "
              "checkpoint in checkpoint.resume.");
}

}  // namespace packtrain
