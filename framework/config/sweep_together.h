// A sweep whose runs train together: runs of one model become one run with several adapters.
#pragma once

#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/config/sweep.h"

namespace packtrain {

struct JoinedRun {
  std::string name;  // unique, valid as a folder name, the same when the sweep is read again
  std::string hash;  // of configuration without run.output, and ranks
  Config config;     // with adapters, one for each of `members`; run.output: OUTPUT/runs/NAME
  // The runs of the sweep that train in this one. Their adapter.name is the adapter's name.
  std::vector<SweepRun> members;
};

struct JoinedSweep {
  std::vector<JoinedRun> runs;
  // Keys that differ between the joined runs, because an adapter has no value of its own for them.
  std::vector<std::string> separating_keys;
};

// Joins runs that differ only in keys of adapters. The order of runs and members is the sweep's.
// Names of adapters are adapter.name or, without one, come from the varied keys of adapters.
// Throws Error(kConfig) naming the run when it trains no adapter, or has several already. It also
// throws for two adapters of one run with equal names, and for what several adapters cannot have.
JoinedSweep join_runs(const Sweep& sweep);

}  // namespace packtrain
