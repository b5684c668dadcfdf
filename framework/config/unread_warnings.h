// Keys that have no effect under the other settings, where this is worth a warning. Where it would
// be an error: unread_checks.h.
#pragma once

#include <string>
#include <vector>

#include "framework/config/checks.h"
#include "framework/config/config.h"

namespace packtrain {

struct UnreadKey {
  std::string what;    // the key, its value and place, and the setting that leaves it out
  std::string advice;  // what to do
};

// The keys whose values are not the defaults, and which nothing reads. `packtrain compare` may
// change the setting that leaves a key out, so it does not warn.
std::vector<UnreadKey> unread_keys(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
