// `requires` in our JSON files: names of features that a reader must know. It lists the features
// that were added after the format's version, so that older programs reject the file with the name.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/json.h"

namespace packtrain {

inline constexpr const char* kRequirementsKey = "requires";
inline constexpr const char* kUseANewerVersion = "Use a newer packtrain.";

// The list in `document`. Empty when it has none. Throws JsonFault when it is not a list of
// strings.
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

// The reason why a reader that knows `known` must reject the file, or nothing. It completes a
// sentence that begins with the file's name.
std::optional<std::string> unknown_requirement(std::span<const std::string> requirements,
                                               std::span<const std::string_view> known);

}  // namespace packtrain
