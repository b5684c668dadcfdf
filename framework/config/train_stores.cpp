// data.train: one token store, or several with repeats, shares or loss weights.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "framework/config/field.h"
#include "framework/core/nearest.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWantedTrainStores =
    "a token store, or a list of stores and {path, repeats (a number > 0), loss_weight (a number > "
    "0), share or probability (a number > 0, at most 1)} maps";
constexpr double kSumTolerance = 1e-6;
const std::array<std::string, 5> kStoreKeys = {"path", "repeats", "loss_weight", "share",
                                               "probability"};

[[noreturn]] void reject_key(const Setting& setting, const std::string& key) {
  std::string advice = "Look at '" + key + "'.";
  if (std::ranges::find(kStoreKeys, key) == kStoreKeys.end()) {
    const auto nearest = nearest_name(key, kStoreKeys);
    if (nearest) advice = "Did you mean '" + *nearest + "' instead of '" + key + "'?";
  }
  reject(setting, kWantedTrainStores, advice);
}

double number_of(const Setting& setting, const std::string& key, const Json& value, double most) {
  const double number = value.is_number() ? value.get<double>() : 0;
  if (!(number > 0 && number <= most)) reject_key(setting, key);
  return number;
}

TrainStore read_map(const Setting& setting, const Json& map) {
  constexpr double kAny = std::numeric_limits<double>::max();
  TrainStore store;
  for (const auto& [key, value] : map.items()) {
    if (key == "path" && value.is_string()) {
      store.path = value.get<std::string>();
    } else if (key == "repeats") {
      store.repeats = number_of(setting, key, value, kAny);
    } else if (key == "loss_weight") {
      store.loss_weight = number_of(setting, key, value, kAny);
    } else if (key == "share") {
      store.share = number_of(setting, key, value, 1);
    } else if (key == "probability") {
      store.probability = number_of(setting, key, value, 1);
    } else {
      reject_key(setting, key);
    }
  }
  if (store.path.empty()) reject(setting, kWantedTrainStores, "A store has no path.");
  if (store.share && store.probability) {
    reject(setting, kWantedTrainStores,
           "A share is of the epoch's tokens, a probability of its examples: give one of the two.");
  }
  const bool is_mixed = store.share || store.probability;
  if (is_mixed && map.contains("repeats")) {
    reject(setting, kWantedTrainStores,
           "How often " + store.path + " repeats follows from the shares: leave 'repeats' out.");
  }
  return store;
}

TrainStore read_store(const Setting& setting, const Json& element) {
  if (element.is_object()) return read_map(setting, element);
  if (!element.is_string() || element.get<std::string>().empty())
    reject(setting, kWantedTrainStores);
  return {.path = element.get<std::string>()};
}

void check_shares(const Setting& setting, const std::vector<TrainStore>& stores,
                  std::optional<double> TrainStore::* member, const char* name) {
  const auto has = [&](const TrainStore& store) { return (store.*member).has_value(); };
  if (std::ranges::none_of(stores, has)) return;
  const auto without = std::ranges::find_if_not(stores, has);
  if (without != stores.end()) {
    reject(setting, kWantedTrainStores,
           fmt::format("All stores of the list have a {}, or none: {} has none.", name,
                       without->path));
  }
  double sum = 0;
  for (const TrainStore& store : stores) sum += *(store.*member);
  if (std::abs(sum - 1) > kSumTolerance) {
    reject(setting, kWantedTrainStores,
           fmt::format("The {} of all stores is {} in sum, wanted 1.", name, sum));
  }
}

Json to_json(const TrainStore& store) {
  Json json = {{"path", store.path}};
  if (store.share) {
    json["share"] = *store.share;
  } else if (store.probability) {
    json["probability"] = *store.probability;
  } else if (constexpr double kExact = 0x1p53;
             store.repeats < kExact && store.repeats == std::floor(store.repeats)) {
    json["repeats"] = static_cast<std::int64_t>(store.repeats);
  } else {
    json["repeats"] = store.repeats;
  }
  json["loss_weight"] = store.loss_weight;
  return json;
}

}  // namespace

Field train_stores(const char* name, std::vector<TrainStore>& member) {
  const auto read = [&member](const Setting& setting) {
    member.clear();
    if (setting.value.is_null()) return;
    if (!setting.value.is_structured()) {
      // A folder name can be a number: 7.
      std::string path =
          setting.value.is_string() ? setting.value.get<std::string>() : setting.text;
      if (!path.empty()) member.push_back({.path = std::move(path)});
      return;
    }
    if (!setting.value.is_array()) reject(setting, kWantedTrainStores);
    for (const Json& element : setting.value) member.push_back(read_store(setting, element));
    check_shares(setting, member, &TrainStore::share, "share");
    check_shares(setting, member, &TrainStore::probability, "probability");
  };
  const auto write = [&member] {
    if (member.empty()) return std::string("null");
    if (member.size() == 1 && member.front() == TrainStore{.path = member.front().path}) {
      return Json(member.front().path).dump();
    }
    Json list = Json::array();
    for (const TrainStore& store : member) list.push_back(to_json(store));
    return list.dump();
  };
  return {.name = name, .wanted = kWantedTrainStores, .read = read, .write = write};
}

}  // namespace packtrain
