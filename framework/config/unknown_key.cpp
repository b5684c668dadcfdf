#include "framework/config/unknown_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "framework/config/other_names.h"
#include "framework/core/error.h"
#include "framework/core/nearest.h"

namespace packtrain {
namespace {

std::string section_of(const std::string& name) {
  return name.substr(0, name.find('.'));
}
std::string key_of(const std::string& name) {
  return name.substr(name.find('.') + 1);
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// The keys of `section`. With "": the names of all sections.
std::vector<std::string> names_of(const std::string& section, std::span<const std::string> keys) {
  std::vector<std::string> names;
  for (const std::string& name : keys) {
    if (section.empty()) add_once(names, section_of(name));
    if (section_of(name) == section) add_once(names, key_of(name));
  }
  return names;
}

// All our keys named `key`, with sections: "optimizer.name or schedule.name".
std::string with_section(const std::string& key, std::span<const std::string> keys) {
  std::vector<std::string> found;
  for (const std::string& name : keys) {
    if (key_of(name) == key) found.push_back(name);
  }
  return fmt::format("{}", fmt::join(found, " or "));
}

std::string advise_other_name(const std::string& ours, const std::string& typed) {
  std::string advice = fmt::format("'{}' is called {} here.", typed, ours);
  if (ours == "batch.global_batch_size") {
    advice += " It counts examples an optimizer step over all ranks; accumulation is computed.";
  }
  return advice;
}

// Advice for `typed`, a name of other trainers or of another section. "" when there is none.
std::string known_answer(const std::string& typed, std::span<const std::string> keys) {
  if (const auto ours = our_name(typed)) return advise_other_name(*ours, typed);
  if (const char* way = other_way(typed)) return way;
  const std::string elsewhere = with_section(typed, keys);
  return elsewhere.empty() ? "" : fmt::format("Did you mean {}?", elsewhere);
}

std::string nearest_answer(const std::string& typed, const std::string& section,
                           std::span<const std::string> keys) {
  const std::vector<std::string> own = names_of(section, keys);
  // before other keys, so that ties are resolved in favour of this section
  std::vector<std::string> all = own;
  for (const std::string& name : keys) add_once(all, key_of(name));
  const std::optional<std::string> nearest = nearest_name(typed, all);
  if (!nearest) return "";
  const bool is_own = std::find(own.begin(), own.end(), *nearest) != own.end();
  if (!is_own) {  // neither the section nor the key was typed: the section's own keys may help more
    const std::string elsewhere = fmt::format("Did you mean {}?", with_section(*nearest, keys));
    return own.empty() ? elsewhere : elsewhere + " " + list_keys(section, keys);
  }
  return fmt::format("Did you mean {}{}?", section.empty() ? "" : section + ".", *nearest);
}

// One unknown name. `advice` is empty when no key of ours is similar.
struct Finding {
  std::string where;
  std::string what;
  std::string advice;
  std::string section;  // section whose keys are listed; "": the list of sections

  bool operator==(const Finding&) const = default;
};

Finding unknown_key(const Setting& setting, std::span<const std::string> keys) {
  std::string advice = known_answer(setting.key, keys);
  if (advice.empty()) advice = nearest_answer(setting.key, setting.section, keys);
  return {setting.key_where, fmt::format("unknown key '{}'", setting.name()), std::move(advice),
          setting.section};
}

Finding unknown_section(const Setting& setting, std::span<const std::string> keys) {
  std::string advice = known_answer(setting.section, keys);
  if (advice.empty()) advice = nearest_answer(setting.section, "", keys);
  return {setting.section_where, fmt::format("unknown section '{}'", setting.section),
          std::move(advice), ""};
}

// For an unknown section without advice, also returns its key when there is advice for the key.
std::vector<Finding> find_faults(const Setting& setting, std::span<const std::string> keys) {
  if (!names_of(setting.section, keys).empty()) return {unknown_key(setting, keys)};
  std::vector<Finding> faults = {unknown_section(setting, keys)};
  if (faults[0].advice.empty() && !known_answer(setting.key, keys).empty()) {
    faults.push_back(unknown_key(setting, keys));
  }
  return faults;
}

[[noreturn]] void reject_one(const Finding& fault, std::span<const std::string> keys) {
  std::string advice = fault.advice;
  if (advice.empty()) advice = list_keys(fault.section, keys);
  throw Error(ErrorCategory::kConfig, fault.where + ": " + fault.what, std::move(advice));
}

[[noreturn]] void reject_several(std::span<const Finding> faults) {
  std::string lines;
  for (const Finding& fault : faults) {
    lines += fmt::format("{}: {}: {}\n  ", fault.where, fault.what,
                         fault.advice.empty() ? "Nothing here is like it." : fault.advice);
  }
  throw Error(ErrorCategory::kConfig, fmt::format("{} names are not known", faults.size()),
              lines +
                  "docs/configuration.md has all keys, `packtrain config --explain SECTION` "
                  "those of a section.");
}

}  // namespace

std::string list_keys(const std::string& section, std::span<const std::string> keys) {
  return fmt::format("{}: {}.", section.empty() ? "Sections" : "Keys of " + section,
                     fmt::join(names_of(section, keys), ", "));
}

void reject_unknown(std::span<const Setting> settings, std::span<const std::string> keys) {
  std::vector<Finding> faults;
  for (const Setting& setting : settings) {
    for (Finding& fault : find_faults(setting, keys)) {
      if (std::ranges::find(faults, fault) == faults.end()) faults.push_back(std::move(fault));
    }
  }
  if (faults.size() == 1) reject_one(faults[0], keys);
  if (!faults.empty()) reject_several(faults);
}

void reject_unknown(const Setting& setting, std::span<const std::string> keys) {
  reject_one(find_faults(setting, keys)[0], keys);
}

}  // namespace packtrain
