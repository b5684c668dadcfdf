#include "launch/cli/export_stores.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>

#include "framework/config/setting.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/json.h"
#include "framework/data/special_tokens.h"
#include "framework/data/store_format.h"
#include "framework/data/token_store.h"
#include "framework/data/tokenizer_tokens.h"
#include "training/setup/tokenizer_check.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxExamples = 10'000;
constexpr std::int64_t kPassagesOfAnEnd = 20;  // one passage in this number

using Json = nlohmann::ordered_json;

std::string tokenizer_of(const std::string& store) {
  return store + "/" + kStoreTokenizerFolder;
}

// data.train is a path, or a list of paths and of maps with a path.
std::vector<std::string> train_paths(const std::string& config_yaml) {
  std::vector<std::string> paths;
  for (const Setting& setting : read_settings(config_yaml, "the checkpoint's configuration")) {
    if (setting.name() != "data.train") continue;
    const Json list = setting.value.is_array() ? setting.value : Json::array({setting.value});
    for (const Json& item : list) {
      const Json path = item.is_object() ? item.value("path", Json()) : item;
      if (path.is_string()) paths.push_back(path.get<std::string>());
    }
  }
  return paths;
}

// Special tokens at the end of learned passages of the store, if they are frequent enough.
std::vector<std::int64_t> ends_of(const std::string& folder) {
  const std::unordered_set<std::int32_t> special = special_tokens(folder);
  if (special.empty()) return {};
  const auto store = TokenStore::open(folder);
  const std::int64_t stored = std::ssize(store->lengths());
  const std::int64_t wanted = std::min(stored, kMaxExamples);
  std::map<std::int32_t, std::int64_t> counts;
  std::int64_t num_passages = 0;
  for (std::int64_t k = 0; k < wanted; ++k) {
    const auto ids = store->input_ids(stored * k / wanted);
    const auto mask = store->loss_mask(stored * k / wanted);
    for (std::size_t t = 1; t < ids.size(); ++t) {
      if (mask[t] == 0 || (t + 1 < ids.size() && mask[t + 1] != 0)) continue;
      ++num_passages;
      if (special.contains(ids[t])) ++counts[ids[t]];
    }
  }
  std::vector<std::int64_t> ends;
  for (const auto& [id, count] : counts) {
    if (count * kPassagesOfAnEnd >= num_passages) ends.push_back(id);
  }
  return ends;
}

std::string chat_template_of(const std::string& folder) {
  const std::string file = tokenizer_of(folder) + "/chat_template.jinja";
  if (std::filesystem::exists(file)) return read_text(file, ErrorCategory::kData, kMaxJsonBytes);
  const std::string config = tokenizer_of(folder) + "/tokenizer_config.json";
  if (!std::filesystem::exists(config)) return "";
  const Json document = Json::parse(read_text(config, ErrorCategory::kData, kMaxJsonBytes), nullptr,
                                    /*allow_exceptions=*/false);
  const Json text = document.is_object() ? document.value("chat_template", Json()) : Json();
  return text.is_string() ? text.get<std::string>() : "";
}

std::string token_text(const std::string& store, std::int64_t id) {
  const auto text = read_tokenizer(tokenizer_of(store));
  const auto tokens = text ? tokens_by_id(*text) : std::vector<std::string>();
  return id < std::ssize(tokens) ? tokens[static_cast<std::size_t>(id)] : std::to_string(id);
}

}  // namespace

RunStores read_run_stores(const TrainingState& state) {
  RunStores stores;
  std::set<std::string> seen;
  for (const std::string& folder : train_paths(state.config_yaml)) {
    if (!seen.insert(folder).second) continue;
    const bool is_there = std::filesystem::exists(folder + "/" + kStoreManifestName);
    (is_there ? stores.folders : stores.gone).push_back(folder);
    if (!is_there) continue;
    for (const std::int64_t id : ends_of(folder)) {
      if (std::ranges::count(stores.end_tokens, id) > 0) continue;
      stores.end_tokens.push_back(id);
      stores.end_texts.push_back(token_text(folder, id));
    }
    if (stores.chat_template.empty()) stores.chat_template = chat_template_of(folder);
  }
  return stores;
}

void check_exported_tokenizer(const RunStores& stores, const std::string& tokenizer_folder) {
  const auto text = read_tokenizer(tokenizer_folder);
  if (!text) return;
  for (const std::string& store : stores.folders) {
    if (read_tokenizer(tokenizer_of(store)) == text) continue;
    check_store_tokenizer(store, tokenizer_folder, tokens_by_id(*text),
                          fmt::format("Nothing is written. Give --tokenizer {}, or "
                                      "--other-tokenizer to copy this one all the same.",
                                      tokenizer_of(store)));
  }
}

}  // namespace packtrain
