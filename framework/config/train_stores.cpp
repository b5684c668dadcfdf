// data.train: one token store, or several with repeats and weights.
#include <algorithm>

#include "framework/config/field.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWanted =
    "a token store, or a list of stores and {path, repeats (an integer >= 1), loss_weight (a "
    "number > 0)} maps";

TrainStore read_map(const Setting& setting, const Json& map) {
  TrainStore store;
  for (const auto& [key, value] : map.items()) {
    if (key == "path" && value.is_string()) {
      store.path = value.get<std::string>();
    } else if (key == "repeats" && value.is_number_integer() && value.get<std::int64_t>() >= 1) {
      store.repeats = value.get<std::int64_t>();
    } else if (key == "loss_weight" && value.is_number() && value.get<double>() > 0) {
      store.loss_weight = value.get<double>();
    } else {
      reject(setting, kWanted, "Look at '" + key + "'.");
    }
  }
  if (store.path.empty()) reject(setting, kWanted, "A store has no path.");
  return store;
}

TrainStore read_store(const Setting& setting, const Json& element) {
  if (element.is_object()) return read_map(setting, element);
  if (!element.is_string() || element.get<std::string>().empty()) reject(setting, kWanted);
  return {.path = element.get<std::string>()};
}

Json to_json(const TrainStore& store) {
  return {{"path", store.path}, {"repeats", store.repeats}, {"loss_weight", store.loss_weight}};
}

}  // namespace

Field train_stores(const char* name, std::vector<TrainStore>& member) {
  const auto read = [&member](const Setting& setting) {
    member.clear();
    if (setting.value.is_null()) return;
    if (!setting.value.is_structured()) {
      // A folder may be called 7, as other texts may.
      std::string path =
          setting.value.is_string() ? setting.value.get<std::string>() : setting.text;
      if (!path.empty()) member.push_back({.path = std::move(path)});
      return;
    }
    if (!setting.value.is_array()) reject(setting, kWanted);
    for (const Json& element : setting.value) member.push_back(read_store(setting, element));
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
  return {.name = name, .wanted = kWanted, .read = read, .write = write};
}

}  // namespace packtrain
