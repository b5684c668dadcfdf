// Names of other trainers' settings, and what is said to those who type them.
#pragma once

#include <optional>
#include <string>

namespace packtrain {

// The key ("section.key") that is called `typed` elsewhere; nothing when no key of ours is.
std::optional<std::string> our_name(const std::string& typed);

// What to do instead, in sentences, where it is done by no key or not supported; else nullptr.
const char* other_way(const std::string& typed);

}  // namespace packtrain
