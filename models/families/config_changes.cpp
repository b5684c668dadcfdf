#include "models/families/config_changes.h"

#include <nlohmann/json.hpp>

#include "framework/support/json.h"

namespace packtrain {
namespace {

void clear_dropouts(nlohmann::json& object) {
  for (auto& [key, value] : object.items()) {
    if (is_dropout_key(key) && value.is_number()) value = 0.0;
  }
}

}  // namespace

bool is_dropout_key(const std::string& key) {
  return key.find("dropout") != std::string::npos || key.ends_with("pdrop");
}

std::string without_dropouts(const std::string& config_json) {
  nlohmann::json config;
  try {
    config = parse_json(config_json);
  } catch (const JsonFault&) {
    return config_json;  // parse_decoder_config says what is wrong
  }
  if (!config.is_object()) return config_json;
  clear_dropouts(config);
  for (auto& [key, value] : config.items()) {
    if (value.is_object()) clear_dropouts(value);
  }
  return config.dump();
}

std::string with_vocabulary(const std::string& config_json, std::int64_t vocab_size) {
  auto config = nlohmann::json::parse(config_json);
  config["vocab_size"] = vocab_size;
  return config.dump();
}

}  // namespace packtrain
