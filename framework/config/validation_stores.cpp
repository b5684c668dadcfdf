// data.validation: one token store, or several with names.
#include <algorithm>
#include <string_view>

#include "framework/config/field.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWantedValidationStores = "a token store, or a map of names to token stores";
constexpr std::size_t kLongestName = 64;

// Names are used in result files and as labels of metrics.
bool is_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, is_plain);
}

void read_map(const Setting& setting, std::vector<ValidationStore>& stores) {
  for (const auto& [name, path] : setting.value.items()) {
    if (!is_name(name)) {
      reject(setting, kWantedValidationStores,
             "'" + name + "' is no name: 1 to 64 letters, digits, and any of _ - .");
    }
    if (!path.is_string() || path.get<std::string>().empty()) {
      reject(setting, kWantedValidationStores, "Look at '" + name + "'.");
    }
    stores.push_back({name, path.get<std::string>()});
  }
}

}  // namespace

Field validation_stores(const char* name, std::vector<ValidationStore>& member) {
  const auto read = [&member](const Setting& setting) {
    member.clear();
    if (setting.value.is_null()) return;
    if (setting.value.is_object()) return read_map(setting, member);
    if (setting.value.is_structured()) reject(setting, kWantedValidationStores);
    // A folder name can be a number: 7.
    std::string path = setting.value.is_string() ? setting.value.get<std::string>() : setting.text;
    if (!path.empty()) member.push_back({.name = {}, .path = std::move(path)});
  };
  const auto write = [&member] {
    if (member.empty()) return std::string("null");
    if (member.size() == 1 && member.front().name.empty()) return Json(member.front().path).dump();
    Json map = Json::object();
    for (const ValidationStore& store : member) map[store.name] = store.path;
    return map.dump();
  };
  return {.name = name, .wanted = kWantedValidationStores, .read = read, .write = write};
}

}  // namespace packtrain
