#include "models/families/family.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/support/error.h"
#include "models/families/granite.h"
#include "models/families/granitemoe.h"
#include "models/families/llama.h"
#include "models/families/mistral.h"
#include "models/families/mixtral.h"
#include "models/families/qwen2.h"
#include "models/families/qwen2_moe.h"

namespace packtrain {

std::span<const Family> families() {
  static const std::array table = {
      granite_family(), granitemoe_family(), llama_family(),     mistral_family(),
      mixtral_family(), qwen2_family(),      qwen2_moe_family(),
  };
  return table;
}

const Family& find_family(const std::string& model_type) {
  std::string known;
  for (const Family& family : families()) {
    if (family.model_type == model_type) {
      return family;
    }
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  throw Error(ErrorCategory::kConfig,
              "model config: model_type is '" + model_type + "', want one of: " + known,
              "models/README.md says how to add a family");
}

std::vector<std::vector<WeightPiece>> weight_layouts(const DecoderConfig& config) {
  const Family& family = find_family(config.family);
  std::vector<std::vector<WeightPiece>> layouts = {family.weights(config)};
  if (family.other_weights != nullptr) {
    for (auto& other : family.other_weights(config)) layouts.push_back(std::move(other));
  }
  for (const auto& layout : layouts) check_weight_map(config, layout);
  const std::size_t num_prefixed = layouts.size();
  for (std::size_t i = 0; i < num_prefixed; ++i) {
    layouts.push_back(without_prefix(layouts[i], family.prefix));
  }
  return layouts;
}

DecoderConfig parse_decoder_config(const std::string& json_text) {
  nlohmann::json config;
  try {
    config = nlohmann::json::parse(json_text);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(ErrorCategory::kConfig,
                "model config: not valid JSON: " + std::string(error.what()));
  }
  if (!config.is_object() || !config.contains("model_type") || !config["model_type"].is_string()) {
    throw Error(ErrorCategory::kConfig, "model config: key 'model_type' is missing",
                "give the Hugging Face model_type, such as llama");
  }
  const Family& family = find_family(config["model_type"].get<std::string>());
  return family.parse(config);
}

}  // namespace packtrain
