#include "training/checkpoint/manifest_cache.h"

#include <sys/stat.h>

namespace packtrain {

// ctime, which no program sets.
std::optional<ManifestCache::FileIdentity> ManifestCache::identify(const std::string& folder) {
  struct stat status{};
  if (::stat((folder + "/" + kManifestName).c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino, status.st_size, status.st_ctim.tv_sec,
                      status.st_ctim.tv_nsec};
}

ManifestSummary ManifestCache::read(const std::string& folder) {
  const std::optional<FileIdentity> file = identify(folder);  // before it is read
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(folder);
  if (found != entries_.end()) {
    if (file == found->second.file) return found->second.summary;
    entries_.erase(found);
  }
  ++num_read_;
  const Manifest manifest = read_checkpoint_manifest(folder);
  ManifestSummary summary{.step = manifest.state.step,
                          .files = {},
                          .validation_loss = manifest.state.validation_loss,
                          .validation_set = manifest.state.validation_set};
  for (const CheckpointFile& one : manifest.files) {
    summary.files.push_back({.name = one.name, .size = one.size, .digest = {}});
  }
  if (file) entries_.emplace(folder, Entry{*file, summary});
  return summary;
}

void ManifestCache::forget(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  entries_.erase(folder);
}

}  // namespace packtrain
