// What may interrupt a run at any time: requests from outside, the watchdog, injected faults.
#pragma once

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "training/faults/fault_injector.h"
#include "training/guards/watchdog.h"
#include "training/loop/run_requests.h"

namespace packtrain {

// A run makes it before it opens any file, because files may hang.
struct RunGuards {
  RunGuards(const Config& config, World& world)
      : faults(config.fault, world.rank()),
        requests(config.run.output, world.rank()),
        watchdog(config.guard, config.run.output, world) {}

  FaultInjector faults;
  RunRequests requests;
  Watchdog watchdog;
};

}  // namespace packtrain
