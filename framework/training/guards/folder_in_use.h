// A run's folder belongs to one job at a time: two would mix checkpoints, metrics and logs.
#pragma once

#include <string>

#include "parallel/world.h"

namespace packtrain {

// Returns at once where no other job leaves signs of life (watchdog.h) in `run_folder`. One that
// does may be on its way out, as after a host was lost: waits for it, ten seconds for one of this
// host, a minute for another's, and throws Error(kConfig) naming it when it goes on. Collective.
void wait_for_folder(const std::string& run_folder, World& world);

}  // namespace packtrain
