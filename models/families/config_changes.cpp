#include "models/families/config_changes.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/json.h"
#include "framework/core/logging.h"
#include "framework/core/nearest.h"
#include "models/families/text_part.h"

namespace packtrain {
namespace {

// Returns nothing for text that is not an object; parse_decoder_config reports the error.
std::optional<nlohmann::json> object_of(const std::string& config_json) {
  try {
    nlohmann::json config = parse_hf_json(config_json);
    return config.is_object() ? std::optional(std::move(config)) : std::nullopt;
  } catch (const JsonFault&) {
    return std::nullopt;
  }
}

// The text model's part of the config, or the whole config.
nlohmann::json& text_of(nlohmann::json& config) {
  return has_text_part(config) ? config[kTextPart] : config;
}

void clear_dropouts(nlohmann::json& object) {
  for (auto& [key, value] : object.items()) {
    if (is_dropout_key(key) && value.is_number()) value = 0.0;
  }
}

// `key` is "object.key".
bool erase_inner(nlohmann::json& config, const std::string& key) {
  const std::size_t dot = key.find('.');
  const auto outer = config.find(key.substr(0, dot));
  if (dot == std::string::npos || outer == config.end() || !outer->is_object()) return false;
  return outer->erase(key.substr(dot + 1)) > 0;
}

std::vector<std::string> names_of(const nlohmann::json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;
}

// The key that is closest to the missing `key`. For "object.key" it searches inside the object.
std::optional<std::string> nearest_key(const nlohmann::json& text, const std::string& key) {
  const std::size_t dot = key.find('.');
  const auto outer = text.find(key.substr(0, dot));
  if (dot == std::string::npos || outer == text.end() || !outer->is_object()) {
    return nearest_name(key, names_of(text));
  }
  const auto inner = nearest_name(key.substr(dot + 1), names_of(*outer));
  return inner ? std::optional(key.substr(0, dot + 1) + *inner) : std::nullopt;
}

}  // namespace

bool is_dropout_key(const std::string& key) {
  if (key == "classifier_dropout" || key.starts_with("summary_")) return false;  // of other models
  return key.find("dropout") != std::string::npos || key.ends_with("pdrop");
}

std::string without_dropouts(const std::string& config_json) {
  std::optional<nlohmann::json> found = object_of(config_json);
  if (!found) return config_json;
  nlohmann::json& text = text_of(*found);
  clear_dropouts(text);
  for (auto& [key, value] : text.items()) {
    if (value.is_object()) clear_dropouts(value);
  }
  return found->dump();
}

std::string without_keys(const std::string& config_json, const std::vector<std::string>& keys) {
  if (keys.empty()) return config_json;
  std::optional<nlohmann::json> found = object_of(config_json);
  if (!found) return config_json;
  nlohmann::json& config = *found;
  nlohmann::json& text = text_of(config);
  for (const std::string& key : keys) {
    const auto near = nearest_key(text, key);
    if (text.erase(key) > 0 || erase_inner(text, key) || erase_inner(config, key)) continue;
    const std::string fault =
        "model.ignore_keys names '" + key + "', which the model's config does not have";
    if (near) throw Error(ErrorCategory::kConfig, fault, "Did you mean '" + *near + "'?");
    log_warning("{}", fault);
  }
  return config.dump();
}

std::string with_vocabulary(const std::string& config_json, std::int64_t vocab_size) {
  auto config = nlohmann::json::parse(config_json);
  nlohmann::json& text = text_of(config);
  if (text.contains("vocab_size") && text["vocab_size"] == vocab_size) return config_json;
  text["vocab_size"] = vocab_size;
  // A second embedding of tokens gets a row for each, as in transformers.
  constexpr const char* kOfLayerInputs = "vocab_size_per_layer_input";
  const auto rows = text.find(kOfLayerInputs);
  if (rows != text.end() && rows->is_number_integer() && *rows < vocab_size) *rows = vocab_size;
  return config.dump();
}

}  // namespace packtrain
