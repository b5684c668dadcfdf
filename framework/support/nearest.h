// "Did you mean": the known name closest to what was typed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace packtrain {

// The candidate with the smallest edit distance to `name` (insert, delete, replace, swap of
// neighbours each cost 1; case counts), the first one of equals. Nothing when even that one differs
// in more than a third of the name's characters (two are always forgiven).
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

}  // namespace packtrain
