// Long lists in messages.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

namespace packtrain {

inline constexpr std::size_t kMaxListed = 3;

// "a, b, c", or "a, b, c, ..." of more than kMaxListed.
template <typename List>
std::string list_start(const List& list) {
  const auto end = std::begin(list) + std::min(kMaxListed, std::size(list));
  return fmt::format("{}{}", fmt::join(std::begin(list), end, ", "),
                     std::size(list) > kMaxListed ? ", ..." : "");
}

}  // namespace packtrain
