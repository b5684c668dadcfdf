// Checks of the section precision, and of settings that conflict with it.
#pragma once

#include "framework/config/checks.h"
#include "framework/config/config.h"

namespace packtrain {

// Throws Error(kConfig) that names the settings, where each was set, and the conflict.
void check_precision(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
