// `requires` in a JSON file of ours: what its reader must know, by name. A file names what it uses
// of a format that came after the format's version, so that older programs refuse it by that name.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/support/json.h"

namespace packtrain {

inline constexpr const char* kRequirementsKey = "requires";
inline constexpr const char* kUseANewerVersion = "Use a newer packtrain.";

// The list of `document`; empty where it has none. Throws JsonFault when it is no list of texts.
template <typename Json>
std::vector<std::string> requirements_of(const Json& document) {
  std::vector<std::string> names;
  const auto found = document.find(kRequirementsKey);
  if (found == document.end()) return names;
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_text)) {
    throw JsonFault("'requires' is no list of texts");
  }
  for (const Json& name : *found) names.push_back(name.template get<std::string>());
  return names;
}

// Why a reader that knows `known` must refuse the file, as the rest of a sentence that begins with
// the file's name; nothing where it need not.
std::optional<std::string> unknown_requirement(std::span<const std::string> requirements,
                                               std::span<const std::string_view> known);

}  // namespace packtrain
