// Checks of the section objective, and of settings that conflict with it.
#pragma once

#include "framework/config/checks.h"
#include "framework/config/config.h"

namespace packtrain {

// Throws Error(kConfig) that names the settings, where each was set, and the conflict. A key that
// the kind does not read must have its default.
void check_objective(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
