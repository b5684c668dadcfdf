// Summaries of manifests, for the choice of checkpoints to keep. A manifest has the ranges of all
// parameters, so that it takes long to read. Hardly any changes from one save to the next.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "training/checkpoint/manifest.h"

namespace packtrain {

struct ManifestSummary {
  std::int64_t step = 0;
  std::vector<CheckpointFile> files;  // names and sizes alone
  std::optional<double> validation_loss = std::nullopt;
  std::string validation_set = {};
};

// Threads may share it.
class ManifestCache {
 public:
  // Reads the manifest of `folder`, unless it is the file that was read before: of the same inode,
  // size and time. Throws as read_checkpoint_manifest() does.
  ManifestSummary read(const std::string& folder);
  void forget(const std::string& folder);
  std::int64_t num_read() const { return num_read_; }  // manifests

 private:
  struct FileIdentity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = 0;  // bytes
    std::int64_t changed_s = 0;
    std::int64_t changed_ns = 0;

    bool operator==(const FileIdentity&) const = default;
  };
  struct Entry {
    FileIdentity file;
    ManifestSummary summary;
  };
  static std::optional<FileIdentity> identify(const std::string& folder);

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // by folder
  std::int64_t num_read_ = 0;
};

}  // namespace packtrain
