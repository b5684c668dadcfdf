// Checks that all ranks were started with the same settings.
#pragma once

#include "framework/config/config.h"
#include "parallel/communicators/world.h"

namespace packtrain {

// Collective. Throws Error(kConfig), the same on every rank, with the first rank and key that
// differ from rank 0's. Metrics endpoints, debug options and faults may differ.
void check_same_settings(const Config& config, World& world);

}  // namespace packtrain
