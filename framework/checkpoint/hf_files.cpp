#include "framework/checkpoint/hf_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "framework/support/error.h"
#include "framework/support/file.h"
#include "framework/support/json.h"

namespace packtrain {
namespace {

using nlohmann::json;

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

std::shared_ptr<const SafetensorsFile> open_file(const std::string& path) {
  if (!is_file(path)) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("{}: no such file, but {} names it", path, kHfIndexName),
                "The download of the model may not have finished.");
  }
  return SafetensorsFile::open(path, ErrorCategory::kCheckpoint);
}

[[noreturn]] void fail_index(const std::string& path, const std::string& fault) {
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", path, fault),
              "Download or export the model again.");
}

// Tensor name -> file name, checked to stay inside the folder.
std::map<std::string, std::string> read_index(const std::string& path) {
  json index;
  try {
    index = parse_json(read_text(path, ErrorCategory::kCheckpoint, kMaxJsonBytes));
  } catch (const JsonFault& fault) {
    fail_index(path, fault.what());
  }
  const auto found = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || found == index.end() || !found->is_object()) {
    fail_index(path, "has no object 'weight_map'");
  }
  std::map<std::string, std::string> result;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string()) fail_index(path, fmt::format("the file of '{}' is no name", tensor));
    const auto name = file.get<std::string>();
    const bool leaves = name.find('/') != std::string::npos || name.find('\0') != std::string::npos;
    if (leaves || !name.ends_with(".safetensors")) {
      fail_index(path, fmt::format("'{}' lies in '{}', want a .safetensors file of the folder",
                                   tensor, name));
    }
    result[tensor] = name;
  }
  return result;
}

// All tensors of the files that the index names: also those that it forgot, for import to judge. Of
// two files that have a tensor the index says which counts, as to transformers.
std::map<std::string, HfTensor> open_indexed(const std::string& folder) {
  const auto index = read_index(folder + "/" + kHfIndexName);
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> files;
  for (const auto& [tensor, name] : index) {
    auto& file = files[name];
    if (!file) file = open_file(folder + "/" + name);
    file->tensor(tensor);  // or throws
  }
  std::map<std::string, HfTensor> tensors;
  for (const auto& [name, file] : files) {
    for (const auto& [tensor, view] : file->tensors()) {
      const auto indexed = index.find(tensor);
      if (indexed != index.end() && indexed->second != name) continue;  // an overlay's base
      const auto [other, is_new] = tensors.try_emplace(tensor, HfTensor{file, &view});
      if (is_new) continue;
      fail_index(file->path(),
                 fmt::format("tensor '{}' lies in {} too", tensor, other->second.file->path()));
    }
  }
  return tensors;
}

}  // namespace

std::string hf_shard_name(int index, int num_shards) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", index, num_shards);
}

std::map<std::string, HfTensor> open_hf_tensors(const std::string& folder) {
  const std::string single = folder + "/" + kHfWeightsName;
  if (is_file(single)) {
    std::map<std::string, HfTensor> tensors;
    const auto file = open_file(single);
    for (const auto& [name, view] : file->tensors()) tensors[name] = {file, &view};
    return tensors;
  }
  if (is_file(folder + "/" + kHfIndexName)) return open_indexed(folder);
  throw Error(ErrorCategory::kConfig,
              fmt::format("{}: has neither {} nor {}", folder, kHfWeightsName, kHfIndexName),
              "model.path must be a Hugging Face folder with safetensors weights (save_pretrained "
              "writes one).");
}

void write_hf_file(const std::string& path, std::span<const std::byte> bytes) {
  OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kCheckpoint);
  file.write(bytes);
  file.sync();
  file.close();
}

void write_hf_json(const std::string& path, const json& document) {
  const std::string text = document.dump(2) + "\n";
  write_hf_file(path, std::as_bytes(std::span(text)));
}

}  // namespace packtrain
