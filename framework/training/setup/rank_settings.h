// Ranks that were started alike.
#pragma once

#include "framework/config/config.h"
#include "parallel/world.h"

namespace packtrain {

// Collective. Throws Error(kConfig), the same on every rank, naming the first rank and key that
// differ from rank 0's. A rank may have its own metrics endpoint, debug aids and faults.
void check_same_settings(const Config& config, World& world);

}  // namespace packtrain
