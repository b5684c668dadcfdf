// Model families: how a Hugging Face config.json becomes a DecoderConfig, and which Hugging Face
// tensor each of our parameters is made of. One small file a family, one line in the table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/decoder_config.h"
#include "models/families/weight_map.h"

namespace packtrain {

struct Family {
  const char* model_type;
  DecoderConfig (*parse)(const nlohmann::json& config);
  std::vector<WeightPiece> (*weights)(const DecoderConfig& config);  // as `transformers` names them
  nlohmann::json (*write)(const DecoderConfig& config);  // a config.json `transformers` loads
  // What the names of all tensors but the head's begin with. Files saved without a head lack it.
  const char* prefix = "model.";
  // Other layouts that published files have (older names, experts stacked or apart), each complete.
  std::vector<std::vector<WeightPiece>> (*other_weights)(const DecoderConfig& config) = nullptr;
};

std::span<const Family> families();  // the explicit table
// Throws Error(kConfig) listing the known families when `model_type` is not one.
const Family& find_family(const std::string& model_type);

// All maps of a folder's tensors that import tries, in this order: the first is what export writes.
// Throws Error(kInternal) when one is not complete (check_weight_map).
std::vector<std::vector<WeightPiece>> weight_layouts(const DecoderConfig& config);

// Parses the text of a config.json. Throws Error(kConfig) naming the key for a missing or wrong
// value and for anything asked for that our decoder does not honour.
DecoderConfig parse_decoder_config(const std::string& json_text);

}  // namespace packtrain
