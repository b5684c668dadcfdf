// Keys that have no effect under the other settings, and learning rates with which nothing is
// trained, where this is worth a warning. Where it would be an error: unread_checks.h.
#pragma once

#include <string>
#include <vector>

#include "framework/config/checks.h"
#include "framework/config/config.h"

namespace packtrain {

struct UnreadKey {
  std::string what;    // the key, its value and place, and the setting that leaves it out
  std::string advice;  // what to do
  const char* kind = "unread_key";  // of the warning in the JSON of `packtrain plan`
};

// The keys whose values are not the defaults, and which nothing reads. `packtrain compare` may
// change the setting that leaves a key out, so it does not warn. Then the learning rates of 0, of
// the kind "zero_learning_rate": measurements use them, so they are no errors.
std::vector<UnreadKey> unread_keys(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
