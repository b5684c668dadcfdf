// Model families: converts a Hugging Face config.json to a DecoderConfig, and maps Hugging Face
// tensors to our parameters. Each family has one small file and one line in the table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/families/weight_map.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

struct Family {
  const char* model_type;
  DecoderConfig (*parse)(const nlohmann::json& config);
  std::vector<WeightPiece> (*weights)(const DecoderConfig& config);  // names of transformers
  nlohmann::json (*write)(const DecoderConfig& config);  // a config.json that transformers loads
  // Common prefix of the names of all tensors but the head's. Files saved without a head do not
  // have it.
  const char* prefix = "model.";
  // Other layouts of published files (older names, stacked or separate experts), each complete.
  std::vector<std::vector<WeightPiece>> (*other_weights)(const DecoderConfig& config) = nullptr;
  // By the names of transformers' modules, which adapters have. Null: those of `weights`.
  std::vector<WeightPiece> (*modules)(const DecoderConfig& config) = nullptr;
  // Prefix of tensors of layers that predict further tokens, which import leaves out, if any.
  const char* prediction_prefix = nullptr;
  // True for a tensor of published files that the model does not read; import leaves it out.
  bool (*leaves_out)(const DecoderConfig& config, const std::string& tensor) = nullptr;
};

std::span<const Family> families();  // the explicit table
// Throws Error(kConfig), which lists the known families, when `model_type` is not one of them.
const Family& find_family(const std::string& model_type);

// The map of the model's tensors by the names of transformers' modules.
std::vector<WeightPiece> module_weights(const DecoderConfig& config);

// All maps that import tries on a folder's tensors, in this order. Export writes the first. Throws
// Error(kInternal) when one is not complete (check_weight_map).
std::vector<std::vector<WeightPiece>> weight_layouts(const DecoderConfig& config);

// Parses the text of a config.json. Throws Error(kConfig), which names the key, for a missing or
// wrong value and for a setting that our decoder does not support.
DecoderConfig parse_decoder_config(const std::string& json_text);

}  // namespace packtrain
