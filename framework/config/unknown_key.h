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

}  // namespace packtrain
