// manifest.json: what a checkpoint consists of. Written last, so a folder that has one is whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/checkpoint/folder_names.h"
#include "framework/checkpoint/training_state.h"
#include "framework/support/error.h"

namespace packtrain {

inline constexpr int kManifestVersion = 1;

struct CheckpointFile {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::string digest;      // XXH3-128 of the whole file, 32 hexadecimal digits
};

struct Manifest {
  // What a reader must know besides the version (support/requirements.h). This version knows none.
  std::vector<std::string> requirements = {};
  TrainingState state;
  std::vector<CheckpointFile> files;  // of rank 0, 1, ...
  // The full shape of every parameter. Which ranges of it a file holds, its own header says.
  std::map<std::string, std::vector<std::int64_t>> parameters;
};

// Of a sound checkpoint that a newer version wrote. Unlike a damaged one it is never passed over
// for an older one, which would lose steps.
class NewerCheckpoint : public Error {
 public:
  using Error::Error;
};

std::string manifest_text(const Manifest& manifest);
// Throws Error(kCheckpoint) naming `path` and the first fault, NewerCheckpoint where it requires
// what this version does not know. File names are compared with those that rank_file_name() makes,
// so that none can point out of the folder.
Manifest parse_manifest(const std::string& text, const std::string& path);
Manifest read_checkpoint_manifest(const std::string& folder);

}  // namespace packtrain
