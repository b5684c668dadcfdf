#include "framework/config/sweep_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "framework/config/field.h"
#include "framework/config/resolve.h"
#include "framework/config/unknown_key.h"
#include "framework/core/error.h"
#include "framework/core/file.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

// The last three sections contain keys of configurations.
const auto kSweepKeys =
    std::to_array<std::string>({"sweep.configs", "sweep.output", "sweep.ranks", "sweep.at_once",
                                "sweep.best", "sweep.baseline", "settings.", "product.", "list."});

// The setting for `key: value` of a sweep file, checked without other settings.
Setting make_setting(const std::string& key, const Json& value, const Setting& place) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == key.size()) {
    reject_at(place.key_where, fmt::format("got the key '{}', wanted section.key", key),
              "For example run.max_steps: 100.");
  }
  Setting setting = place;
  setting.section = key.substr(0, dot);
  setting.key = key.substr(dot + 1);
  setting.section_where = place.key_where;
  setting.value = value;
  if (value.is_structured() || value.is_null()) {
    setting.text.clear();
  } else {
    setting.text = value.is_string() ? value.get<std::string>() : value.dump();
  }
  if (setting.name() == "run.output") {
    reject_at(place.key_where, "run.output is set by the sweep, a folder for each run",
              "Set sweep.output, which these folders are in.");
  }
  write_setting(setting);
  return setting;
}

std::vector<Setting> make_settings(const Setting& place, const Json& map) {
  if (!map.is_object() || map.empty()) reject(place, "maps of section.key: value");
  std::vector<Setting> settings;
  for (const auto& [key, value] : map.items()) settings.push_back(make_setting(key, value, place));
  return settings;
}

SweepAxis make_axis(const Setting& setting, const std::string& key) {
  if (!setting.value.is_array() || setting.value.empty()) {
    reject_at(setting.where,
              fmt::format("{}: got {}, wanted a list of values", key, setting.value.dump()),
              "A value that all runs have belongs under settings.");
  }
  SweepAxis axis{key, setting.where, {}};
  std::vector<std::string> seen;
  for (const Json& value : setting.value) {
    axis.values.push_back(make_setting(key, value, setting));
    const std::string text = write_setting(axis.values.back());
    if (std::ranges::find(seen, text) != seen.end()) {
      reject_at(setting.where, fmt::format("{}: the value {} is given twice", key, text),
                "Remove one of them.");
    }
    seen.push_back(text);
  }
  return axis;
}

void read_best(const Setting& setting, SweepFile& file) {
  const bool right = setting.value.is_object() && setting.value.size() == 1 &&
                     (setting.value.contains("lowest") || setting.value.contains("highest")) &&
                     setting.value.front().is_string();
  if (!right) reject(setting, "{lowest: FIGURE} or {highest: FIGURE}");
  file.best_is_lowest = setting.value.contains("lowest");
  file.best_figure = setting.value.front().get<std::string>();
  file.best_where = setting.where;
}

void read_configs(Setting setting, SweepFile& file) {
  if (setting.value.is_string()) setting.value = Json::array({setting.value});
  text_list("sweep.configs", file.configs).read(setting);
  for (auto config = file.configs.begin(); config != file.configs.end(); ++config) {
    if (std::find(file.configs.begin(), config, *config) == config) continue;
    reject_at(setting.where, fmt::format("sweep.configs: {} is given twice", *config),
              "Remove one of them.");
  }
}

void read_option(const Setting& setting, SweepFile& file) {
  if (setting.key == "configs") {
    read_configs(setting, file);
  } else if (setting.key == "output") {
    needed_text("sweep.output", file.output).read(setting);
  } else if (setting.key == "ranks") {
    integer("sweep.ranks", file.num_ranks, 1, 1'000'000).read(setting);
  } else if (setting.key == "at_once") {
    integer("sweep.at_once", file.num_at_once, 1, 1024).read(setting);
  } else if (setting.key == "best") {
    read_best(setting, file);
  } else if (setting.key == "baseline") {
    file.baseline = make_settings(setting, setting.value);
  } else {
    reject_unknown(setting, kSweepKeys);
  }
}

void read_list(const Setting& setting, SweepFile& file) {
  if (!setting.value.is_array() || setting.value.empty()) {
    reject(setting, "a list of maps, each of section.key: value");
  }
  for (const Json& entry : setting.value) {
    file.list.push_back(make_settings(setting, entry));
  }
}

void read_entry(const Setting& setting, SweepFile& file) {
  if (setting.key.empty() && setting.section != "list") {
    const bool is_known = std::ranges::any_of(kSweepKeys, [&setting](const std::string& key) {
      return key.starts_with(setting.section + ".");
    });
    if (!is_known) reject_unknown(setting, kSweepKeys);
    if (!setting.value.empty()) reject(setting, "a map of keys");
  } else if (setting.section == "sweep") {
    read_option(setting, file);
  } else if (setting.section == "settings") {
    file.settings.push_back(make_setting(setting.key, setting.value, setting));
  } else if (setting.section == "product") {
    file.product.push_back(make_axis(setting, setting.key));
  } else if (setting.section == "list" && setting.key.empty()) {
    read_list(setting, file);
  } else if (setting.section == "list") {
    reject_at(setting.section_where,
              "list: got a map, wanted a list of maps of section.key: value");
  } else {
    reject_unknown(setting, kSweepKeys);
  }
}

void apply_override(Setting setting, SweepFile& file) {
  const std::string name = setting.name();
  if (setting.section == "sweep") {
    read_option(setting, file);
    return;
  }
  const auto axis = std::ranges::find(file.product, name, &SweepAxis::key);
  if (axis != file.product.end()) {
    if (!setting.value.is_array()) setting.value = Json::array({setting.value});
    *axis = make_axis(setting, name);
    return;
  }
  std::erase_if(file.settings, [&name](const Setting& known) { return known.name() == name; });
  file.settings.push_back(make_setting(name, setting.value, setting));
}

// A key can be in one place only, so that its value does not depend on the order of places.
void check_places(const SweepFile& file) {
  std::map<std::string, std::string> places;
  const auto take = [&places](const std::string& key, const std::string& where,
                              const std::string& section) {
    const std::string place = fmt::format("{} ({})", section, where);
    const auto [first, is_new] = places.emplace(key, place);
    if (is_new || first->second == place) return;
    reject_at(where, fmt::format("{} is given in {} and in {}", key, first->second, section),
              "Keep one of them.");
  };
  for (const Setting& setting : file.settings) take(setting.name(), setting.where, "settings");
  for (const SweepAxis& axis : file.product) take(axis.key, axis.where, "product");
  for (const auto& entry : file.list) {
    for (const Setting& setting : entry) take(setting.name(), setting.where, "list");
  }
}

void check_complete(const SweepFile& file, const std::string& path) {
  if (file.configs.empty()) {
    reject_at(path, "sweep.configs is not given, wanted a configuration file or a list of them");
  }
  if (file.output.empty()) {
    reject_at(path, "sweep.output is not given, wanted a folder for runs and results");
  }
  check_places(file);
}

}  // namespace

SweepFile read_sweep_file(const std::string& path, std::span<const std::string> overrides) {
  SweepFile file;
  for (const Setting& setting : read_settings(read_text(path, ErrorCategory::kConfig), path)) {
    read_entry(setting, file);
  }
  for (const std::string& text : overrides) apply_override(read_override(text), file);
  check_complete(file, path);
  if (file.list.empty()) file.list.emplace_back();
  return file;
}

}  // namespace packtrain
