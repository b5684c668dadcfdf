// What to say about a key that is none of ours.
#pragma once

#include <span>
#include <string>

#include "framework/config/setting.h"

namespace packtrain {

// Throws Error(kConfig) for a setting whose name is not in `keys` ("section.key" each), naming in
// this order of preference: that the design's key is not in this version, our name for a key of
// other trainers, the section the key belongs to, the nearest known key, all keys of the section.
[[noreturn]] void reject_unknown(const Setting& setting, std::span<const std::string> keys);

// The same for several at once, in one error with a line for each; returns when there are none.
void reject_unknown(std::span<const Setting> settings, std::span<const std::string> keys);

// "Keys of memory: recompute, limit_gib.", or with "" for `section` "Sections: ...".
std::string list_keys(const std::string& section, std::span<const std::string> keys);

}  // namespace packtrain
