// The names and the weight files of a Hugging Face folder. Used by import and export.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "framework/support/safetensors.h"

namespace packtrain {

inline constexpr const char* kHfConfigName = "config.json";
inline constexpr const char* kHfWeightsName = "model.safetensors";
inline constexpr const char* kHfIndexName = "model.safetensors.index.json";

std::string hf_shard_name(int index, int num_shards);  // model-00001-of-00003.safetensors

// A tensor and the mapped file that it lies in.
struct HfTensor {
  std::shared_ptr<const SafetensorsFile> file;
  const TensorView* view = nullptr;
};

// Maps model.safetensors or, where that is not there, the files its index names (which may be
// symbolic links to anywhere, as in a cache of downloads). Throws Error(kConfig) when the folder
// has neither, Error(kCheckpoint) when a named file is missing, an index or file is damaged, the
// index points out of the folder or a tensor lies in two files.
std::map<std::string, HfTensor> open_hf_tensors(const std::string& folder);

// New files, synced. Throw Error(kCheckpoint).
void write_hf_file(const std::string& path, std::span<const std::byte> bytes);
void write_hf_json(const std::string& path, const nlohmann::json& document);

}  // namespace packtrain
