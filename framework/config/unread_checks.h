// Checks of keys that only one value of another key reads. Objectives (objective_checks.h) and
// Sophia (sophia_settings.h) have their own.
#pragma once

#include "framework/config/checks.h"
#include "framework/config/config.h"

namespace packtrain {

// Throws Error(kConfig) that names a key which nothing reads, and what would read it.
//    optimizer.momentum                        Muon
//    schedule.decay_ratio, _steps and _shape   warmup_stable_decay
//    keys of adapter                           an adapter, unless adapter.kind: none was set too
void check_keys_are_read(const Config& config, const SettingPlaces& places);

}  // namespace packtrain
