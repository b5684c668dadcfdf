#include "framework/config/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/adapters.h"
#include "framework/config/checks.h"
#include "framework/config/load.h"
#include "framework/config/schema.h"
#include "framework/config/sophia_settings.h"
#include "framework/config/unknown_key.h"
#include "framework/core/error.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kModelConfig = "model.config";
constexpr std::string_view kBelowModelConfig = "model.config.";

bool is_below_model_config(const std::string& name) {
  return name.starts_with(kBelowModelConfig) && name.size() > kBelowModelConfig.size();
}

// "model.config.rope_scaling.factor" -> {"rope_scaling", "factor"}
std::vector<std::string> path_in_model_config(const std::string& name) {
  std::vector<std::string> path;
  for (std::size_t begin = kBelowModelConfig.size(); begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    path.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return path;
}

// Returns the child `key`. A map gets the key when it is missing. A list must have the index,
// because an index past the end would create the elements before it. Throws Json::exception
// otherwise.
Json& child_of(Json& value, const std::string& key) {
  if (value.is_null()) value = Json::object();
  if (!value.is_array()) return value[key];
  Json::json_pointer index;
  index.push_back(key);
  return value.at(index);
}

void change_model_config(Setting& whole, const Setting& part) {
  if (!whole.value.is_object()) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("{}: '{}', but model.config is not given", part.key_where, part.name()),
                "It changes one key of a model.config that is there.");
  }
  try {
    Json* place = &whole.value;
    for (const std::string& key : path_in_model_config(part.name())) {
      place = &child_of(*place, key);
    }
    *place = part.value;
  } catch (const Json::exception&) {  // the parent of the key is not a map
    reject(part, "a key of a map, or an index within a list, in model.config");
  }
}

// Removes settings below model.config and writes their values into its map.
std::vector<Setting> merge_model_config(std::span<const Setting> settings) {
  std::vector<Setting> merged;
  Setting model_config;
  for (const Setting& setting : settings) {
    if (is_below_model_config(setting.name())) {
      change_model_config(model_config, setting);
      merged.push_back(model_config);
      continue;
    }
    merged.push_back(setting);
    if (setting.name() == kModelConfig) model_config = setting;
  }
  return merged;
}

std::string write_json(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

const Field* find_field(const std::vector<Field>& fields, const std::string& name) {
  const auto field = std::ranges::find(fields, name, &Field::name);
  return field == fields.end() ? nullptr : &*field;
}

bool is_section(const std::string& name, const std::vector<Field>& fields) {
  return std::ranges::any_of(
      fields, [&name](const Field& field) { return field.name.starts_with(name + "."); });
}

// Reads one setting into its member. Throws Error(kConfig).
void apply(const Setting& setting, const std::vector<Field>& fields, SettingPlaces& places) {
  const std::string name = setting.name();
  if (const Field* const field = find_field(fields, name)) {
    field->read(setting);
    places[name] = setting.where;
    return;
  }
  // An empty section (`memory:`) is valid. Any other value in place of a section is an error.
  if (!setting.key.empty() || !is_section(setting.section, fields)) {
    reject_unknown(setting, config_keys());
  }
  if (!setting.value.empty()) {
    reject(setting, "a map of keys", list_keys(setting.section, config_keys()));
  }
}

// Reports all unknown keys in one error before any value is read.
void reject_all_unknown(std::span<const Setting> settings, const std::vector<Field>& fields) {
  std::vector<Setting> unknown;
  for (const Setting& setting : settings) {
    const bool is_empty_section = setting.key.empty() && is_section(setting.section, fields);
    if (is_empty_section || find_field(fields, setting.name()) != nullptr) continue;
    unknown.push_back(setting);
  }
  reject_unknown(unknown, config_keys());
}

// A batch size in tokens replaces the default batch size, but not one that was set.
void settle_batch_size(Config& config, const SettingPlaces& places) {
  if (config.batch.global_batch_tokens && !places.contains("batch.global_batch_size")) {
    config.batch.global_batch_size.reset();
  }
}

// A number of tokens that was set holds, unless memory.fit was set too. The resolved configuration
// has all keys, and loads as the same one.
void settle_memory_fit(Config& config, const SettingPlaces& places) {
  if (places.contains("memory.fit")) return;
  const bool is_set = places.contains("batch.max_tokens_per_micro_batch");
  config.memory.fit = is_set ? MemoryFit::kKeepTokens : MemoryFit::kAuto;
}

// Each resolved configuration has all keys, and so sets each of them once.
void note_adapter_keys(Config& config, std::span<const Setting> settings) {
  std::map<std::string, std::int64_t> times;
  for (const std::string& key : config_keys()) {
    if (key.starts_with("adapter.")) times[key] = 0;
  }
  for (const Setting& setting : settings) {
    if (const auto key = times.find(setting.name()); key != times.end()) ++key->second;
  }
  const std::int64_t num_resolved = std::ranges::min(times | std::views::values);
  for (const auto& [key, count] : times) {
    if (count > num_resolved) config.adapter.set_keys.push_back(key);
  }
}

// The settings of each adapter's own run must agree too.
void check_each_adapter(const Config& config, const SettingPlaces& places) {
  check_adapters(config);
  if (config.adapters.empty()) return;
  for (Config own : adapter_configs(config)) {
    if (own.data.validation.empty()) {  // one without is not evaluated
      own.run.evaluate_steps = {};
      own.run.evaluate_at_start = false;
    }
    try {
      check_settings_agree(own, places);
    } catch (const Error& error) {
      throw Error(error.category(), adapter_label(own.adapter.name) + ": " + error.message(),
                  error.advice());
    }
  }
}

}  // namespace

Config resolve_settings(std::span<const Setting> settings, SettingPlaces* where_set) {
  Config config;
  const std::vector<Field> fields = fields_of(config);
  SettingPlaces places;
  const std::vector<Setting> merged = merge_model_config(settings);
  reject_all_unknown(merged, fields);
  for (const Setting& setting : merged) apply(setting, fields, places);
  settle_batch_size(config, places);
  settle_memory_fit(config, places);
  settle_sophia(config.optimizer, places);
  note_adapter_keys(config, merged);
  check_settings_agree(config, places);
  check_each_adapter(config, places);
  if (where_set != nullptr) *where_set = std::move(places);
  return config;
}

std::string write_setting(const Setting& setting) {
  if (is_below_model_config(setting.name())) return write_json(setting.value);
  Config config;
  const std::vector<Field> fields = fields_of(config);
  SettingPlaces places;
  apply(setting, fields, places);
  return config_value(config, setting.name());
}

std::string resolved_value(const Config& config, const std::string& key) {
  if (!is_below_model_config(key)) return config_value(config, key);
  const Json model_config = Json::parse(config.model.config.empty() ? "{}" : config.model.config);
  Json::json_pointer place;
  for (const std::string& part : path_in_model_config(key)) place.push_back(part);
  return model_config.contains(place) ? write_json(model_config[place]) : "null";
}

}  // namespace packtrain
