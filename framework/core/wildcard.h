// Patterns of names in which `*` matches any text, also none.
#pragma once

#include <string_view>

namespace packtrain {

// True when the pattern matches the whole name. All characters but `*` match themselves.
bool matches_wildcard(std::string_view pattern, std::string_view name);

}  // namespace packtrain
