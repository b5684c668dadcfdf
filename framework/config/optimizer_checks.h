#pragma once

#include "framework/config/checks.h"
#include "framework/config/config.h"

namespace packtrain {

// Throws Error(kConfig) when settings of the section optimizer contradict each other.
void check_optimizer(const OptimizerSection& optimizer, const SettingPlaces& places);

// Throws Error(kConfig) where memory.offload moves the state of Adafactor.
void check_offloaded_optimizer(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
