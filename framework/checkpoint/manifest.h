// manifest.json: what a checkpoint consists of. Written last, so a folder that has one is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/checkpoint/folder_names.h"
#include "framework/checkpoint/training_state.h"
#include "framework/support/error.h"

namespace packtrain {

inline constexpr int kManifestVersion = 1;

// Elements of a parameter that a file holds, weights and moments alike.
struct SavedRange {
  std::size_t parameter = 0;  // its place in Manifest::parameters
  std::int64_t begin = 0;     // of its flattened elements
  std::int64_t numel = 0;
};

struct CheckpointFile {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::string digest;      // XXH3-128 of the whole file, 32 hexadecimal digits
  // Of length and header of the safetensors file, by which its parts are checked (shard_file.h);
  // older checkpoints have neither: empty.
  std::uint64_t header_size = 0;
  std::string header_digest = {};
  // All that it holds; empty where only the header says it.
  std::vector<SavedRange> ranges = {};
};

struct Manifest {
  // What a reader must know besides the version (support/requirements.h). This version knows none.
  std::vector<std::string> requirements = {};
  TrainingState state;
  std::vector<CheckpointFile> files;  // of the first rank that wrote one, the second, ...
  // The full shape of every parameter.
  std::map<std::string, std::vector<std::int64_t>> parameters;
};

// Of a sound checkpoint that a newer version wrote. Unlike a damaged one it is never passed over
// for an older one, which would lose steps.
class NewerCheckpoint : public Error {
 public:
  using Error::Error;
};

// Of a checkpoint with a file that is not what was saved: an older one may be.
class DamagedCheckpoint : public Error {
 public:
  explicit DamagedCheckpoint(std::string message)
      : Error(ErrorCategory::kCheckpoint, std::move(message),
              "The checkpoint is damaged; use an older one.") {}
};

std::string manifest_text(const Manifest& manifest);
// Throws Error(kCheckpoint) naming `path` and the first fault, NewerCheckpoint where it requires
// what this version does not know. File names are compared with those that rank_file_name() makes,
// so that none can point out of the folder.
Manifest parse_manifest(const std::string& text, const std::string& path);
Manifest read_checkpoint_manifest(const std::string& folder);

}  // namespace packtrain
