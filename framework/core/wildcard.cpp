#include "framework/core/wildcard.h"

#include <cstddef>

namespace packtrain {

// Each `*` first matches nothing, and one character more whenever the text after it does not match.
// Only the last `*` has to be extended, so that the time is at most the product of the lengths.
bool matches_wildcard(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t after_star = std::string_view::npos;  // in the pattern
  std::size_t star_end = 0;                         // of what the last `*` matches
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      star_end = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      n = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace packtrain
