#include "framework/checkpoint/hf_special_tokens.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/support/error.h"
#include "framework/support/file.h"

namespace packtrain {
namespace {

using nlohmann::json;

// An empty object when the file is not there.
json read_object(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return json::object();
  json document = json::parse(read_text(path, ErrorCategory::kCheckpoint), nullptr, false);
  if (!document.is_object()) {
    throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: wanted a JSON object", path),
                "The tokenizer's folder is damaged: copy it again.");
  }
  return document;
}

// The text of a token, which tokenizer_config.json writes plainly or as {"content": text}.
std::string token_text(const json& tokenizer_config, const char* key) {
  const json token = tokenizer_config.value(key, json());
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object()) return token.value("content", "");
  return "";
}

json token_id(const json& tokenizer, const std::string& text) {
  if (text.empty()) return {};
  for (const json& added : tokenizer.value("added_tokens", json::array())) {
    if (added.value("content", "") == text) return added.value("id", json());
  }
  return {};
}

}  // namespace

json special_token_ids(const std::string& model_config, const std::string& tokenizer_folder) {
  const json own = model_config.empty() ? json::object() : json::parse(model_config);
  json tokenizer_config = json::object();
  json tokenizer = json::object();
  if (!tokenizer_folder.empty()) {
    tokenizer_config = read_object(tokenizer_folder + "/tokenizer_config.json");
    tokenizer = read_object(tokenizer_folder + "/tokenizer.json");
  }
  json ids = json::object();
  for (const char* name : {"bos_token", "eos_token", "pad_token"}) {
    const std::string key = std::string(name) + "_id";
    json id = own.value(key, json());
    if (id.is_null()) id = token_id(tokenizer, token_text(tokenizer_config, name));
    if (!id.is_null()) ids[key] = id;
  }
  return ids;
}

}  // namespace packtrain
