// Finds the known name that is closest to a typed one, for "Did you mean".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace packtrain {

// The candidate with the smallest edit distance to `name`; the first one of equals. Insert, delete,
// replace and a swap of neighbours cost 1 each. Case matters. Returns nothing when the distance is
// more than a third of the name's length, and more than 2.
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

}  // namespace packtrain
