#include "training/checkpoint/hf_special_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "models/families/text_part.h"
#include "training/checkpoint/hf_files.h"

namespace packtrain {
namespace {

using nlohmann::json;

// An empty object when the file does not exist.
json read_object(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return json::object();
  const auto fail = [&](const std::string& fault) {
    throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", path, fault),
                "The tokenizer's folder is damaged: copy it again.");
  };
  json document;
  try {
    document = parse_hf_json(read_text(path, ErrorCategory::kCheckpoint, kMaxJsonBytes));
  } catch (const JsonFault& fault) {
    fail(fault.what());
  }
  if (!document.is_object()) fail("wanted a JSON object");
  return document;
}

// The string at `key`. "" when there is none or the value is not a string.
std::string text_of(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? found->get<std::string>()
             : "";
}

// The text of a token. tokenizer_config.json has a string or {"content": text}.
std::string token_text(const json& tokenizer_config, const char* key) {
  const json token = tokenizer_config.value(key, json());
  if (token.is_string()) return token.get<std::string>();
  return text_of(token, "content");
}

json token_id(const json& tokenizer, const std::string& text) {
  if (text.empty()) return {};
  for (const json& added : tokenizer.value("added_tokens", json::array())) {
    if (text_of(added, "content") == text) return added.value("id", json());
  }
  return {};
}

}  // namespace

json special_token_ids(const std::string& model_config, const std::string& tokenizer_folder) {
  const json own = model_config.empty() ? json::object() : text_part(json::parse(model_config));
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

json version_of_transformers(const std::string& model_config) {
  constexpr const char* kKey = "transformers_version";
  const json own = model_config.empty() ? json::object() : json::parse(model_config);
  return own.contains(kKey) ? json{{kKey, own.at(kKey)}} : json::object();
}

void add_end_tokens(json& document, const std::vector<std::int64_t>& end_tokens) {
  if (end_tokens.empty()) return;
  const json own = document.value("eos_token_id", json());
  json ids = own.is_array() ? own : json::array();
  if (own.is_number_integer()) ids.push_back(own);
  for (const std::int64_t id : end_tokens) {
    if (std::find(ids.begin(), ids.end(), json(id)) == ids.end()) ids.push_back(id);
  }
  document["eos_token_id"] = ids.size() == 1 ? ids[0] : ids;
}

void add_end_tokens_of_whole(json& whole, const std::vector<std::int64_t>& end_tokens) {
  if (end_tokens.empty()) return;
  json known = text_part(whole);
  add_end_tokens(known, end_tokens);
  whole["eos_token_id"] = known["eos_token_id"];
  whole[kTextPart]["eos_token_id"] = known["eos_token_id"];
}

void finish_tokenizer(const std::string& folder, const std::vector<std::int64_t>& end_tokens,
                      const std::string& chat_template) {
  const auto rewrite = [](const std::string& path, const json& document) {
    std::filesystem::remove(path);
    write_hf_json(path, document);
  };
  const std::string generation = folder + "/generation_config.json";
  if (json document = read_object(generation); !document.empty()) {
    add_end_tokens(document, end_tokens);
    rewrite(generation, document);
  }
  if (chat_template.empty()) return;
  const std::string file = folder + "/chat_template.jinja";
  std::filesystem::remove(file);
  write_hf_file(file, std::as_bytes(std::span(chat_template)));
  const std::string config = folder + "/tokenizer_config.json";
  json document = read_object(config);
  if (!document.contains("chat_template")) return;  // transformers reads the file instead
  document["chat_template"] = chat_template;
  rewrite(config, document);
}

}  // namespace packtrain
