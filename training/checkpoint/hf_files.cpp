#include "training/checkpoint/hf_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/core/logging.h"

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

// Tensor name -> file name. Each file name is checked to stay inside the folder.
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
      fail_index(path, fmt::format("'{}' is in '{}', want a .safetensors file of the folder",
                                   tensor, name));
    }
    result[tensor] = name;
  }
  return result;
}

using Index = std::map<std::string, std::string>;  // tensor name -> file name
using Files = std::map<std::string, std::shared_ptr<const SafetensorsFile>>;  // by file name

Files open_files(const std::string& folder, const Index& index) {
  Files files;
  for (const auto& [tensor, name] : index) {
    auto& file = files[name];
    if (!file) file = open_file(folder + "/" + name);
  }
  return files;
}

void check_places(const Index& index, const Files& files) {
  for (const auto& [tensor, name] : index) {
    if (files.at(name)->tensors().contains(tensor)) continue;
    const auto other = std::ranges::find_if(files, [&, &wanted = tensor](const auto& file) {
      return file.second->tensors().contains(wanted);
    });
    fail_index(files.at(name)->path(),
               fmt::format("has no tensor '{}', which {} says is in it{}", tensor, kHfIndexName,
                           other == files.end() ? "" : fmt::format(": it is in {}", other->first)));
  }
}

// transformers ignores the index when two files have a tensor: it takes the last file.
void warn_of_overlaid(const std::string& tensor, const std::string& taken,
                      const std::string& other) {
  if (other < taken) return;
  log_warning(
      "tensor '{}' is in {} and in {}: {} counts, as {} says (transformers takes the "
      "last file)",
      tensor, taken, other, taken, kHfIndexName);
}

// All tensors of the files that the index names, also tensors that the index lacks; import decides
// about them. When two files have a tensor, the index decides.
std::map<std::string, HfTensor> open_indexed(const std::string& folder) {
  const Index index = read_index(folder + "/" + kHfIndexName);
  const Files files = open_files(folder, index);
  check_places(index, files);
  std::map<std::string, HfTensor> tensors;
  for (const auto& [name, file] : files) {
    for (const auto& [tensor, view] : file->tensors()) {
      const auto indexed = index.find(tensor);
      if (indexed != index.end() && indexed->second != name) {  // overwritten by another file
        warn_of_overlaid(tensor, indexed->second, name);
        continue;
      }
      const auto [other, is_new] = tensors.try_emplace(tensor, HfTensor{file, &view});
      if (is_new) continue;
      fail_index(file->path(),
                 fmt::format("tensor '{}' is in {} too", tensor, other->second.file->path()));
    }
  }
  return tensors;
}

// Sorted names of weight files in `folder` that are not read.
std::vector<std::string> other_weights(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_weights = name.ends_with(".safetensors") || name.ends_with(".bin") ||
                            name.ends_with(".pth") || name.ends_with(".gguf");
    if (is_weights) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

[[noreturn]] void fail_no_weights(const std::string& folder) {
  const std::vector<std::string> others = other_weights(folder);
  std::string advice =
      "model.path must be a Hugging Face folder with safetensors weights (save_pretrained writes "
      "one).";
  if (std::ranges::any_of(others, [](const auto& name) { return name.starts_with("model-0"); })) {
    advice = fmt::format("Its index is missing: download {} again.", kHfIndexName);
  } else if (std::ranges::count(others, "adapter_model.safetensors") > 0) {
    advice =
        "It is an adapter: merge it into its model first (packtrain merge), or give the model as "
        "model.path and the adapter as adapter.path.";
  }
  throw Error(ErrorCategory::kConfig,
              fmt::format("{}: has neither {} nor {}{}", folder, kHfWeightsName, kHfIndexName,
                          others.empty() ? ""
                                         : fmt::format(", only {}{}", others.front(),
                                                       others.size() > 1 ? ", ..." : "")),
              advice);
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
  fail_no_weights(folder);
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
