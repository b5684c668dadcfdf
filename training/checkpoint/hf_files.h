// Names and weight files of a Hugging Face folder, for import and export.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "framework/core/safetensors.h"

namespace packtrain {

inline constexpr const char* kHfConfigName = "config.json";
inline constexpr const char* kHfWeightsName = "model.safetensors";
inline constexpr const char* kHfIndexName = "model.safetensors.index.json";
// A tensor in NF4 of bitsandbytes has another one of its name and this.
inline constexpr std::string_view kNf4StateSuffix = ".quant_state.bitsandbytes__nf4";

std::string hf_shard_name(int index, int num_shards);  // model-00001-of-00003.safetensors

// A tensor and the mapped file that contains it.
struct HfTensor {
  std::shared_ptr<const SafetensorsFile> file;
  const TensorView* view = nullptr;
};

// Maps model.safetensors or, without it, the files that the index names. They can be symbolic links
// to any place, as in a download cache. Throws Error(kConfig) when the folder has neither.
// Throws Error(kCheckpoint) when a named file is missing, an index or file is damaged, or the index
// points outside the folder. Also throws when two files have a tensor that the index does not name.
std::map<std::string, HfTensor> open_hf_tensors(const std::string& folder);

// Write new files and sync them. Throw Error(kCheckpoint).
void write_hf_file(const std::string& path, std::span<const std::byte> bytes);
void write_hf_json(const std::string& path, const nlohmann::json& document);

}  // namespace packtrain
