// Checks between settings: values that are valid alone but conflict with each other.
#pragma once

#include <map>
#include <string>

#include "framework/config/config.h"

namespace packtrain {

// "section.key" -> where it was set; keys not in it have their defaults.
using SettingPlaces = std::map<std::string, std::string>;

// Throws Error(kConfig) that names both settings, where each was set, and the conflict.
void check_settings_agree(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
