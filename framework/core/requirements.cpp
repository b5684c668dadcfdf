#include "framework/core/requirements.h"

#include <fmt/format.h>

namespace packtrain {

std::optional<std::string> unknown_requirement(std::span<const std::string> requirements,
                                               std::span<const std::string_view> known) {
  for (const std::string& name : requirements) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return fmt::format("needs '{}', which this version does not know", name);
  }
  return std::nullopt;
}

}  // namespace packtrain
