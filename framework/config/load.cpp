#include "framework/config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>

#include "framework/config/resolve.h"
#include "framework/config/schema.h"
#include "framework/config/setting.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/hash.h"

namespace packtrain {

namespace {

// A key without a section: one of ours, or `lr=1`, for which the error names ours.
std::optional<Setting> read_sectionless(const std::string& override_text) {
  const std::size_t end = override_text.find_first_of(".=");
  if (end == std::string::npos || end == 0 || override_text[end] == '.') return std::nullopt;
  const std::vector<std::string> keys = config_keys();
  if (std::ranges::find(keys, override_text.substr(0, end)) != keys.end()) {
    return read_whole_override(override_text);
  }
  Setting setting;
  setting.section = override_text.substr(0, end);
  setting.section_where = setting.key_where = "command line: " + override_text;
  const auto is_in_section = [&](const std::string& key) {
    return key.starts_with(setting.section + ".");
  };
  if (std::ranges::any_of(keys, is_in_section)) return std::nullopt;
  return setting;
}

// The advice where a folder is given: that of a run has its configuration.
void refuse_folder(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return;
  const std::string own = (std::filesystem::path(path) / "config.yaml").string();
  const bool is_run = std::filesystem::exists(own);
  throw Error(ErrorCategory::kConfig,
              fmt::format("{}: is a folder, wanted a configuration file (YAML)", path),
              is_run ? fmt::format("Give the run's own one, {}.", own)
                     : "`packtrain config` prints one with all keys.");
}

std::vector<Setting> read_all(const std::string& path, std::span<const std::string> overrides) {
  std::vector<Setting> settings;
  if (!path.empty()) {
    refuse_folder(path);
    settings = read_settings(read_text(path, ErrorCategory::kConfig, kMaxConfigBytes), path);
  }
  for (const std::string& override_text : overrides) {
    const std::optional<Setting> sectionless = read_sectionless(override_text);
    settings.push_back(sectionless ? *sectionless : read_override(override_text));
  }
  return settings;
}

}  // namespace

Config load_config(const std::string& path, std::span<const std::string> overrides) {
  return resolve_settings(read_all(path, overrides));
}

Config load_config(const std::string& path, std::span<const std::string> overrides,
                   std::vector<UnreadKey>& unread) {
  SettingPlaces places;
  Config config = resolve_settings(read_all(path, overrides), &places);
  unread = unread_keys(config, places);
  return config;
}

std::string dump_config(const Config& config) {
  Config copy = config;  // fields need a mutable Config
  std::string yaml;
  std::string section;
  for (const Field& field : fields_of(copy)) {
    const std::size_t dot = field.name.find('.');
    if (dot == std::string::npos) {  // a key without a section
      yaml += fmt::format("{}: {}\n", field.name, field.write());
      continue;
    }
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
  Config copy = config;  // fields need a mutable Config
  for (const Field& field : fields_of(copy)) {
    if (field.name == key) return field.write();
  }
  throw Error(ErrorCategory::kInternal, fmt::format("the configuration has no key '{}'", key));
}

std::vector<std::string> config_keys() {
  Config config;
  std::vector<std::string> names;
  for (const Field& field : fields_of(config)) names.push_back(field.name);
  return names;
}

}  // namespace packtrain
