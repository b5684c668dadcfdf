// Settings that are fine alone and wrong together.
#pragma once

#include <map>
#include <string>

#include "framework/config/config.h"

namespace packtrain {

// "section.key" -> where it was set; keys not in it have their defaults.
using SettingPlaces = std::map<std::string, std::string>;

// Throws Error(kConfig) naming both settings, where each was set, and why they do not go together.
void check_settings_agree(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
