#include "training/setup/tokenizer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/data/store_format.h"
#include "framework/data/tokenizer_tokens.h"

namespace packtrain {
namespace {

using Json = nlohmann::json;

constexpr double kTolerableShare = 0.01;

}  // namespace

void check_store_tokenizer(const std::string& store, const std::string& model,
                           const std::vector<std::string>& models, const std::string& advice) {
  const auto text = read_tokenizer(fmt::format("{}/{}", store, kStoreTokenizerFolder));
  if (!text) return;
  const std::vector<std::string> stores = tokens_by_id(*text);
  const std::size_t num_shared = std::min(stores.size(), models.size());
  std::size_t num_different = 0;
  std::size_t first = 0;
  for (std::size_t id = num_shared; id-- > 0;) {
    if (stores[id] == models[id]) continue;
    ++num_different;
    first = id;
  }
  if (num_different == 0) return;
  const std::string difference = fmt::format(
      "token store {} was made with another tokenizer than that of {}: {} of {} ids mean other "
      "tokens (id {}: {}, to the model {})",
      store, model, num_different, num_shared, first, Json(stores[first]).dump(),
      Json(models[first]).dump());
  if (static_cast<double>(num_different) > kTolerableShare * static_cast<double>(num_shared)) {
    throw Error(ErrorCategory::kData, difference, advice);
  }
  log_warning(
      "{}\n  This is right where reserved tokens got names. Otherwise prepare the data with the "
      "model's tokenizer.",
      difference);
}

void check_tokenizers(const Config& config) {
  if (config.model.path.empty()) return;
  const auto text = read_tokenizer(config.model.path);
  if (!text) return;
  std::set<std::string> stores;
  for (const TrainStore& store : config.data.train) stores.insert(store.path);
  for (const ValidationStore& store : config.data.validation) stores.insert(store.path);
  // Parsed on demand, because most tokenizers are equal byte by byte.
  std::optional<std::vector<std::string>> models;
  for (const std::string& store : stores) {
    if (read_tokenizer(fmt::format("{}/{}", store, kStoreTokenizerFolder)) == text) continue;
    if (!models) models = tokens_by_id(*text);
    check_store_tokenizer(store, config.model.path, *models,
                          fmt::format("Prepare it with --tokenizer {}.", config.model.path));
  }
}

}  // namespace packtrain
