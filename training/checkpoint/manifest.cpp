#include "training/checkpoint/manifest.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/requirements.h"
#include "training/checkpoint/json_members.h"
#include "training/checkpoint/manifest_ranges.h"
#include "training/checkpoint/state_json.h"

namespace packtrain {
namespace {

using nlohmann::json;
using Fault = ManifestFault;
constexpr const char* kFormat = "packtrain-checkpoint";
constexpr const char* kDigest = "xxh3-128";
void parse_header(const json& object, CheckpointFile& file) {
  if (!object.contains("header_digest")) return;
  file.header_digest = text_member(object, "header_digest");
  file.header_size = unsigned_member(object, "header_size");
  if (file.header_size > file.size) {
    throw Fault(fmt::format("'header_size' of '{}' is more than its 'size'", file.name));
  }
  if (!object.contains("ranges")) return;
  auto ranges = parse_ranges(text_member(object, "ranges"));
  if (!ranges) throw Fault("'ranges' is not a list of numbers");
  file.ranges = std::move(*ranges);
}

std::vector<CheckpointFile> parse_files(const json& array, std::int64_t num_ranks) {
  if (num_ranks < 1 || !array.is_array() || array.size() != static_cast<std::size_t>(num_ranks)) {
    throw Fault(fmt::format("'files' is not a list of {} files, one a rank", num_ranks));
  }
  std::vector<CheckpointFile> files;
  for (const json& object : array) {
    const std::string wanted =
        rank_file_name(static_cast<int>(files.size()), static_cast<int>(num_ranks));
    CheckpointFile file{text_member(object, "name"), unsigned_member(object, "size"),
                        text_member(object, "digest")};
    if (file.name != wanted) {
      throw Fault(fmt::format("names the file '{}', want '{}'", file.name, wanted));
    }
    parse_header(object, file);
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<std::int64_t> parse_counts(const json& list, const std::string& name) {
  if (!list.is_array()) throw Fault(fmt::format("the shape of '{}' is not a list", name));
  std::vector<std::int64_t> counts;
  for (const json& count : list) counts.push_back(count_from(count, name));
  return counts;
}

std::map<std::string, std::vector<std::int64_t>> parse_parameters(const json& object) {
  if (!object.is_object()) throw Fault("'parameters' is not an object");
  std::map<std::string, std::vector<std::int64_t>> parameters;
  for (const auto& [name, shape] : object.items()) {
    parameters[name] = parse_counts(shape, name);
    std::int64_t numel = 1;
    for (const std::int64_t size : parameters[name]) {
      if (__builtin_mul_overflow(numel, size, &numel)) {
        throw Fault(fmt::format("the shape of '{}' overflows", name));
      }
    }
  }
  return parameters;
}

std::map<std::string, EncodedShape> parse_encoded(const json& document) {
  const json objects = document.value("encoded", json::object());
  if (!objects.is_object()) throw Fault("'encoded' is not an object");
  std::map<std::string, EncodedShape> encoded;
  for (const auto& [name, object] : objects.items()) {
    const bool is_fp8 = object.contains("format") && text_member(object, "format") == kFp8Format;
    encoded[name] = {parse_counts(member(object, "shape"), name),
                     parse_counts(member(object, "tensors"), name),
                     is_fp8 ? ParameterEncoding::Format::kFp8 : ParameterEncoding::Format::kNf4};
  }
  return encoded;
}

// Checked before anything else, because a newer file can have another format.
std::vector<std::string> parse_requirements(const json& document, const std::string& path) {
  std::vector<std::string> requirements = requirements_of(document);
  if (const auto unknown = unknown_requirement(requirements, kKnownRequirements)) {
    throw NewerCheckpoint(ErrorCategory::kCheckpoint, fmt::format("{}: {}", path, *unknown),
                          kUseANewerVersion);
  }
  return requirements;
}

Manifest parse(const json& document, const std::string& path) {
  if (text_member(document, "format") != kFormat) {
    throw Fault(fmt::format("'format' is not '{}'", kFormat));
  }
  if (const auto version = count_member(document, "version"); version != kManifestVersion) {
    throw Fault(
        fmt::format("has format version {}, this program reads {}", version, kManifestVersion));
  }
  if (text_member(document, "digest") != kDigest) {
    throw Fault(fmt::format("'digest' is not '{}'", kDigest));
  }
  Manifest manifest;
  manifest.requirements = parse_requirements(document, path);
  manifest.state = parse_state(member(document, "state"));
  manifest.files = parse_files(member(document, "files"), manifest.state.num_ranks);
  manifest.parameters = parse_parameters(member(document, "parameters"));
  manifest.encoded = parse_encoded(document);
  if (const std::string name = wrongly_encoded_parameter(manifest); !name.empty()) {
    throw Fault(fmt::format("'encoded' of '{}' is not the parameter", name));
  }
  if (const std::string file = file_with_wrong_ranges(manifest); !file.empty()) {
    throw Fault(fmt::format("'ranges' of '{}' leave a parameter", file));
  }
  return manifest;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  json files = json::array();
  for (const CheckpointFile& file : manifest.files) {
    json object = {{"name", file.name}, {"size", file.size}, {"digest", file.digest}};
    if (!file.header_digest.empty()) {
      object["header_size"] = file.header_size;
      object["header_digest"] = file.header_digest;
    }
    if (!file.ranges.empty()) object["ranges"] = ranges_text(file.ranges);
    files.push_back(std::move(object));
  }
  json parameters = json::object();
  for (const auto& [name, shape] : manifest.parameters) parameters[name] = shape;
  json document = {{"format", kFormat}, {"version", kManifestVersion},
                   {"digest", kDigest}, {"state", state_json(manifest.state)},
                   {"files", files},    {"parameters", parameters}};
  for (const auto& [name, of] : manifest.encoded) {
    json& object = document["encoded"][name] = {{"shape", of.shape}, {"tensors", of.tensor_numels}};
    if (of.format == ParameterEncoding::Format::kFp8) object["format"] = kFp8Format;
  }
  if (!manifest.requirements.empty()) document[kRequirementsKey] = manifest.requirements;
  // A path with invalid UTF-8 in the saved configuration must not fail the save.
  return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  std::string fault;
  try {
    return parse(parse_json(text), path);
  } catch (const std::runtime_error& error) {  // Fault, JsonFault
    fault = error.what();
  }
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", path, fault),
              "The checkpoint is damaged or from another version; use an older one.");
}

Manifest read_checkpoint_manifest(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kManifestName);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("{}: {}", path, error ? error.message() : "No such file or directory"),
                "Give a folder named step-N that a training run saved.");
  }
  return parse_manifest(read_text(path, ErrorCategory::kCheckpoint, kMaxJsonBytes), path);
}

std::string checkpoint_digest(const Manifest& manifest) {
  std::string digests;
  for (const CheckpointFile& file : manifest.files) digests += file.digest;
  return hash_bytes(std::as_bytes(std::span(digests)));
}

TrainingState read_checkpoint_state(const std::string& folder) {
  return read_checkpoint_manifest(folder).state;
}

bool is_checkpoint(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder + "/" + kManifestName, ignored);
}

}  // namespace packtrain
