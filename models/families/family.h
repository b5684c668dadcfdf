// Model families: how a Hugging Face config.json becomes a DecoderConfig, and which Hugging Face
// tensor each of our parameters is made of. One small file a family, one line in the table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "models/decoder_config.h"

namespace packtrain {

// Rows [row_begin, row_begin + num_rows) of our parameter are the Hugging Face tensor `hf_name`
// (whole tensor, same row-major layout). Merged weights (qkv, gate-up) have several entries.
struct WeightPiece {
  std::string parameter;
  std::string hf_name;
  std::vector<std::int64_t> hf_shape;
  std::int64_t row_begin = 0;
  std::int64_t num_rows = 0;
};

struct Family {
  const char* model_type;
  DecoderConfig (*parse)(const nlohmann::json& config);
  std::vector<WeightPiece> (*weights)(const DecoderConfig& config);
  nlohmann::json (*write)(const DecoderConfig& config);  // a config.json `transformers` loads
};

std::span<const Family> families();  // the explicit table
// Throws Error(kConfig) listing the known families when `model_type` is not one.
const Family& find_family(const std::string& model_type);

// Parses the text of a config.json. Throws Error(kConfig) naming the key for a missing or wrong
// value and for anything asked for that our decoder does not honour.
DecoderConfig parse_decoder_config(const std::string& json_text);

}  // namespace packtrain
