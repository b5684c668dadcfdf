#include "framework/data/tokenizer_tokens.h"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"

namespace packtrain {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxId = 1 << 24;

void add(const std::string& token, const Json& id, std::vector<std::string>& tokens) {
  if (!id.is_number_unsigned() || id.get<std::size_t>() > kMaxId) return;
  const auto index = id.get<std::size_t>();
  if (index >= tokens.size()) tokens.resize(index + 1);
  tokens[index] = token;
}

// Accepts {token: id}, or [[token, score], ...] of unigram models.
void add_vocabulary(const Json& vocabulary, std::vector<std::string>& tokens) {
  if (vocabulary.is_object()) {
    for (const auto& [token, id] : vocabulary.items()) add(token, id, tokens);
    return;
  }
  std::size_t id = 0;
  for (const Json& entry : vocabulary) add(entry.at(0), id++, tokens);
}

}  // namespace

std::optional<std::string> read_tokenizer(const std::string& folder) {
  try {
    return read_text(folder + "/tokenizer.json", ErrorCategory::kData, kMaxJsonBytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::string> tokens_by_id(const std::string& text) {
  try {
    const Json json = parse_json(text);
    std::vector<std::string> tokens;
    add_vocabulary(json.at("model").at("vocab"), tokens);
    for (const Json& token : json.value("added_tokens", Json::array())) {
      add(token.at("content"), token.at("id"), tokens);
    }
    return tokens;
  } catch (const JsonFault&) {
    return {};
  } catch (const Json::exception&) {
    return {};
  }
}

}  // namespace packtrain
