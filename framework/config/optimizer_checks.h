#pragma once

#include "framework/config/checks.h"
#include "framework/config/config.h"

namespace packtrain {

// Throws Error(kConfig) when settings of the section optimizer contradict each other.
void check_optimizer(const OptimizerSection& optimizer, const SettingPlaces& places);

}  // namespace packtrain
