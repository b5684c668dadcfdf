// Errors for unknown keys.
#pragma once

#include <span>
#include <string>

#include "framework/config/setting.h"

namespace packtrain {

// Throws Error(kConfig) for a setting whose name is not in `keys` ("section.key" each). The advice
// is the first that exists:
// 1. The key is not in this version.
// 2. Our name for a key of other trainers.
// 3. The section of the key, then the nearest key.
// 4. All keys of the section.
[[noreturn]] void reject_unknown(const Setting& setting, std::span<const std::string> keys);

// The same for several settings in one error, a line for each. Returns when there are none.
void reject_unknown(std::span<const Setting> settings, std::span<const std::string> keys);

// "Keys of memory: recompute, limit_gib."; with an empty `section`: "Sections: ...".
std::string list_keys(const std::string& section, std::span<const std::string> keys);

}  // namespace packtrain
