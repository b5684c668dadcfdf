#include "framework/data/special_tokens.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/data/store_format.h"

namespace packtrain {
namespace {

std::unordered_set<std::int32_t> ids_of(const nlohmann::json& tokenizer) {
  std::unordered_set<std::int32_t> ids;
  const auto tokens = tokenizer.is_object() ? tokenizer.find("added_tokens") : tokenizer.end();
  if (tokens == tokenizer.end() || !tokens->is_array()) return ids;
  for (const auto& token : *tokens) {
    if (!token.is_object() || !token.contains("special") || !token.contains("id")) continue;
    const auto& special = token["special"];
    if (special.is_boolean() && special.get<bool>() && token["id"].is_number_integer()) {
      ids.insert(token["id"].get<std::int32_t>());
    }
  }
  return ids;
}

}  // namespace

std::unordered_set<std::int32_t> special_tokens(const std::string& store_folder) {
  const std::string path = store_folder + "/" + kStoreTokenizerFolder + "/tokenizer.json";
  if (!std::filesystem::exists(path)) return {};
  const std::string text = read_text(path, ErrorCategory::kData, kMaxJsonBytes);
  try {
    return ids_of(parse_json(text));
  } catch (const JsonFault&) {
    return {};
  }
}

}  // namespace packtrain
