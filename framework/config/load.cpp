#include "framework/config/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/config/checks.h"
#include "framework/config/schema.h"
#include "framework/config/setting.h"
#include "framework/config/unknown_key.h"
#include "framework/support/error.h"
#include "framework/support/file.h"
#include "framework/support/hash.h"

namespace packtrain {
namespace {

std::vector<std::string> names_of(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.push_back(field.name);
  return names;
}

// Reads one setting into its member, or throws.
void apply(const Setting& setting, const std::vector<Field>& fields, SettingPlaces& places) {
  const std::string name = setting.name();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&name](const Field& known) { return known.name == name; });
  if (field != fields.end()) {
    field->read(setting);
    places[name] = setting.where;
    return;
  }
  const bool known_section = std::any_of(fields.begin(), fields.end(), [&](const Field& known) {
    return known.name.starts_with(setting.section + ".");
  });
  if (!known_section || !setting.key.empty()) reject_unknown(setting, names_of(fields));
  // A section without keys (`memory:`) says nothing; anything else in its place is a mistake.
  if (!setting.value.empty()) reject(setting, "a map of keys");
}

// The default batch size makes way for one in tokens; one that was written down does not.
void settle_batch_size(Config& config, const SettingPlaces& places) {
  if (config.batch.global_batch_tokens && !places.contains("batch.global_batch_size")) {
    config.batch.global_batch_size.reset();
  }
}

}  // namespace

Config load_config(const std::string& path, std::span<const std::string> overrides) {
  std::vector<Setting> settings = read_settings(read_text(path, ErrorCategory::kConfig), path);
  for (const std::string& override_text : overrides) {
    settings.push_back(read_override(override_text));
  }
  Config config;
  const std::vector<Field> fields = fields_of(config);
  SettingPlaces places;
  for (const Setting& setting : settings) apply(setting, fields, places);
  settle_batch_size(config, places);
  check_settings_agree(config, places);
  return config;
}

std::string dump_config(const Config& config) {
  Config copy = config;  // fields are tied to members that can be written
  std::string yaml;
  std::string section;
  for (const Field& field : fields_of(copy)) {
    const std::size_t dot = field.name.find('.');
    if (field.name.substr(0, dot) != section) {
      section = field.name.substr(0, dot);
      yaml += section + ":\n";
    }
    yaml += fmt::format("  {}: {}\n", field.name.substr(dot + 1), field.write());
  }
  return yaml;
}

std::string hash_config(const Config& config) {
  const std::string yaml = dump_config(config);
  return hash_bytes(std::as_bytes(std::span(yaml)));
}

std::string config_value(const Config& config, const std::string& key) {
  Config copy = config;  // fields are tied to members that can be written
  for (const Field& field : fields_of(copy)) {
    if (field.name == key) return field.write();
  }
  throw Error(ErrorCategory::kInternal, fmt::format("the configuration has no key '{}'", key));
}

std::vector<std::string> config_keys() {
  Config config;
  return names_of(fields_of(config));
}

}  // namespace packtrain
