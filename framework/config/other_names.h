// Names of settings in other trainers, and the advice for users who type them.
#pragma once

#include <optional>
#include <string>

namespace packtrain {

// Our key ("section.key") for `typed`, a name in other trainers. Nothing when there is none.
std::optional<std::string> our_name(const std::string& typed);

// Advice in sentences for a name that no key of ours replaces. nullptr when there is none.
const char* other_way(const std::string& typed);

}  // namespace packtrain
