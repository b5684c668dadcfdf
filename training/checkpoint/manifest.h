// manifest.json: the contents of a checkpoint. It is written last, so that a folder with a manifest
// is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "models/block/parameter_encoding.h"
#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/training_state.h"

namespace packtrain {

inline constexpr int kManifestVersion = 1;
// The feature of a checkpoint that holds an adapter, not the whole model.
inline constexpr const char* kAdapterRequirement = "adapter";
// It holds several adapters.
inline constexpr const char* kAdaptersRequirement = "several-adapters";
// Rows have magnitudes (DoRA).
inline constexpr const char* kMagnitudesRequirement = "adapter-magnitudes";
// It holds initial values of the adapter, which are subtracted from the model's weights (PiSSA).
inline constexpr const char* kInitialValuesRequirement = "initial-adapter-values";

// Elements of a parameter that a file holds, for weights and for moments.
struct SavedRange {
  std::size_t parameter = 0;  // index in Manifest::parameters
  std::int64_t begin = 0;     // index in its flattened elements
  std::int64_t numel = 0;
};

struct CheckpointFile {
  std::string name;
  std::uint64_t size = 0;  // bytes
  std::string digest;      // XXH3-128 of the whole file, 32 hexadecimal digits
  // Size and digest of the safetensors header with its length field, by which parts are checked
  // (shard_file.h). Older checkpoints have neither.
  std::uint64_t header_size = 0;
  std::string header_digest = {};
  // All ranges of the file. Empty when only the file's header has them.
  std::vector<SavedRange> ranges = {};
};

// A parameter that is stored encoded (models/block/parameter_encoding.h).
struct EncodedShape {
  std::vector<std::int64_t> shape;  // of the parameter
  // The elements of its tensors, each in groups of its own. 8-bit floats have one entry for all.
  std::vector<std::int64_t> tensor_numels;
  ParameterEncoding::Format format = ParameterEncoding::Format::kNf4;
};

// Its "format" in manifest.json. A parameter in NF4 has none there.
inline constexpr const char* kFp8Format = "fp8";

// In the requirements of a checkpoint with such parameters.
inline constexpr std::string_view kNf4Requirement = "nf4_groups";
inline constexpr std::string_view kFp8Requirement = "fp8_weights";

// This version knows them.
inline constexpr std::string_view kKnownRequirements[] = {
    kAdapterRequirement,  kNf4Requirement,        kFp8Requirement,
    kAdaptersRequirement, kMagnitudesRequirement, kInitialValuesRequirement};

struct Manifest {
  // Features that a reader must know in addition to the version (core/requirements.h).
  std::vector<std::string> requirements = {};
  TrainingState state;
  std::vector<CheckpointFile> files;  // in the order of the ranks that wrote them
  // The full shape of every parameter as stored: [bytes] for an encoded one.
  std::map<std::string, std::vector<std::int64_t>> parameters;
  std::map<std::string, EncodedShape> encoded = {};
};

// A valid checkpoint of a newer version. Unlike a damaged one it is never replaced by an older
// checkpoint, which would lose steps.
class NewerCheckpoint : public Error {
 public:
  using Error::Error;
};

// A checkpoint with a file that differs from the saved one. An older checkpoint can be intact.
class DamagedCheckpoint : public Error {
 public:
  explicit DamagedCheckpoint(std::string message)
      : Error(ErrorCategory::kCheckpoint, std::move(message),
              "The checkpoint is damaged; use an older one.") {}
};

std::string manifest_text(const Manifest& manifest);
// Throws Error(kCheckpoint) with `path` and the first fault, NewerCheckpoint when it requires an
// unknown feature. File names must be results of rank_file_name(), so that none can point outside
// the folder.
Manifest parse_manifest(const std::string& text, const std::string& path);
Manifest read_checkpoint_manifest(const std::string& folder);
// Of the contents of all files: a copy has the same. What is written into a manifest later does not
// change it.
std::string checkpoint_digest(const Manifest& manifest);

}  // namespace packtrain
