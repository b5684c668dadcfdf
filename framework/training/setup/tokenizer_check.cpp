#include "framework/training/setup/tokenizer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "framework/data/store_format.h"
#include "framework/support/error.h"
#include "framework/support/file.h"
#include "framework/support/json.h"

namespace packtrain {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxId = 1 << 24;
constexpr double kTolerableShare = 0.01;

// Nothing where there is none.
std::optional<std::string> read_tokenizer(const std::string& folder) {
  try {
    return read_text(folder + "/tokenizer.json", ErrorCategory::kData, kMaxJsonBytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

class TokensById {
 public:
  // Of a tokenizer.json; without tokens where it is none that we can read.
  explicit TokensById(const std::string& text) {
    try {
      const Json json = parse_json(text);
      add_vocabulary(json.at("model").at("vocab"));
      for (const Json& token : json.value("added_tokens", Json::array())) {
        add(token.at("content"), token.at("id"));
      }
    } catch (const JsonFault&) {
      tokens_.clear();
    } catch (const Json::exception&) {
      tokens_.clear();
    }
  }

  std::size_t size() const { return tokens_.size(); }
  const std::string& operator[](std::size_t id) const { return tokens_[id]; }

 private:
  // {token: id}, or of unigram models [[token, score], ...].
  void add_vocabulary(const Json& vocabulary) {
    if (vocabulary.is_object()) {
      for (const auto& [token, id] : vocabulary.items()) add(token, id);
      return;
    }
    std::size_t id = 0;
    for (const Json& entry : vocabulary) add(entry.at(0), id++);
  }

  void add(const std::string& token, const Json& id) {
    if (!id.is_number_unsigned() || id.get<std::size_t>() > kMaxId) return;
    const auto index = id.get<std::size_t>();
    if (index >= tokens_.size()) tokens_.resize(index + 1);
    tokens_[index] = token;
  }

  std::vector<std::string> tokens_;
};

void check_store(const std::string& store, const std::string& model, const TokensById& models) {
  const auto text = read_tokenizer(fmt::format("{}/{}", store, kStoreTokenizerFolder));
  if (!text) return;
  const TokensById stores(*text);
  const std::size_t num_shared = std::min(stores.size(), models.size());
  std::size_t num_different = 0;
  std::size_t first = 0;
  for (std::size_t id = num_shared; id-- > 0;) {
    if (stores[id] == models[id]) continue;
    ++num_different;
    first = id;
  }
  if (static_cast<double>(num_different) <= kTolerableShare * static_cast<double>(num_shared)) {
    return;
  }
  throw Error(ErrorCategory::kData,
              fmt::format("token store {} was made with another tokenizer than that of {}: {} of "
                          "{} ids mean other tokens (id {}: {}, to the model {})",
                          store, model, num_different, num_shared, first,
                          Json(stores[first]).dump(), Json(models[first]).dump()),
              fmt::format("Prepare it with --tokenizer {}.", model));
}

}  // namespace

void check_tokenizers(const Config& config) {
  if (config.model.path.empty()) return;
  const auto text = read_tokenizer(config.model.path);
  if (!text) return;
  std::set<std::string> stores;
  for (const TrainStore& store : config.data.train) stores.insert(store.path);
  for (const ValidationStore& store : config.data.validation) stores.insert(store.path);
  std::optional<TokensById> models;  // read when it is needed: most are equal byte by byte
  for (const std::string& store : stores) {
    if (read_tokenizer(fmt::format("{}/{}", store, kStoreTokenizerFolder)) == text) continue;
    if (!models) models.emplace(*text);
    check_store(store, config.model.path, *models);
  }
}

}  // namespace packtrain
