// optimizer.groups: other settings of the optimizer for parameters by the pattern of their names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "framework/config/field.h"
#include "framework/config/optimizer_section.h"
#include "framework/core/nearest.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kWantedGroups =
    "a list of {match, name, learning_rate, weight_decay} maps, like [{match: \"*norm*\", "
    "weight_decay: 0}]";
const std::vector<std::string> kGroupKeys = {"match", "name", "learning_rate", "weight_decay"};

std::string read_group_name(const Setting& setting, const Json& value) {
  const bool is_known = value.is_string() && std::ranges::any_of(kOptimizerNames, [&](auto* name) {
                          return value.get<std::string>() == name;
                        });
  if (is_known) return value.get<std::string>();
  reject(setting, kWantedGroups,
         fmt::format("'name' is {}, wanted one of {}.", value.dump(),
                     fmt::join(kOptimizerNames, ", ")));
}

double read_group_number(const Setting& setting, const std::string& key, const Json& value) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (number >= 0 && std::isfinite(number)) return number;
  reject(setting, kWantedGroups,
         fmt::format("'{}' is {}, wanted a number >= 0.", key, value.dump()));
}

[[noreturn]] void reject_group_key(const Setting& setting, const std::string& key) {
  const auto nearest = nearest_name(key, kGroupKeys);
  reject(setting, kWantedGroups,
         nearest ? fmt::format("Did you mean '{}' instead of '{}'?", *nearest, key)
                 : fmt::format("'{}' is no key of a group.", key));
}

OptimizerGroupSetting read_group(const Setting& setting, const Json& map) {
  if (!map.is_object()) reject(setting, kWantedGroups);
  OptimizerGroupSetting group;
  for (const auto& [key, value] : map.items()) {
    if (key == "match" && value.is_string()) {
      group.match = value.get<std::string>();
    } else if (key == "name") {
      group.name = read_group_name(setting, value);
    } else if (key == "learning_rate") {
      group.learning_rate = read_group_number(setting, key, value);
    } else if (key == "weight_decay") {
      group.weight_decay = read_group_number(setting, key, value);
    } else {
      reject_group_key(setting, key);
    }
  }
  if (group.match.empty()) reject(setting, kWantedGroups, "A group has no 'match'.");
  if (!group.name && !group.learning_rate && !group.weight_decay) {
    reject(setting, kWantedGroups,
           fmt::format("The group '{}' changes nothing: give it a name, a learning_rate or a "
                       "weight_decay.",
                       group.match));
  }
  return group;
}

Json json_of(const OptimizerGroupSetting& group) {
  Json json = {{"match", group.match}};
  if (group.name) json["name"] = *group.name;
  if (group.learning_rate) json["learning_rate"] = *group.learning_rate;
  if (group.weight_decay) json["weight_decay"] = *group.weight_decay;
  return json;
}

}  // namespace

Field optimizer_groups(const char* name, std::vector<OptimizerGroupSetting>& member) {
  const auto read = [&member](const Setting& setting) {
    std::vector<OptimizerGroupSetting> groups;
    if (!setting.value.is_null() && !setting.value.is_array()) reject(setting, kWantedGroups);
    for (const Json& element : setting.value) groups.push_back(read_group(setting, element));
    member = std::move(groups);
  };
  const auto write = [&member] {
    Json list = Json::array();
    for (const OptimizerGroupSetting& group : member) list.push_back(json_of(group));
    return list.dump();
  };
  return {.name = name, .wanted = kWantedGroups, .read = read, .write = write};
}

}  // namespace packtrain
