// Ensures that one job at a time uses a run's folder. Two would mix checkpoints, metrics and logs.
#pragma once

#include <string>

#include "parallel/communicators/world.h"

namespace packtrain {

// Returns immediately when no other job writes heartbeats (watchdog.h) in `run_folder`. Otherwise
// that job may be about to end, as after the loss of a host. Waits ten seconds for a job of this
// host and a minute for one of another host. If that job continues, throws Error(kConfig) naming
// it. Collective.
void wait_for_folder(const std::string& run_folder, World& world);

}  // namespace packtrain
