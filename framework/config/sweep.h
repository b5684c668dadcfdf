// A sweep: many configurations that differ in a few keys, each one a run.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/config.h"
#include "framework/config/sweep_file.h"

namespace packtrain {

struct SweepRun {
  std::string name;  // fit for a folder, no other run's, the same when the sweep is read again
  std::string hash;  // of what its result depends on: configuration without run.output, ranks
  std::vector<std::string> values;  // of Sweep::columns
  Config config;                    // run.output: OUTPUT/runs/NAME
};

struct Sweep {
  SweepFile file;
  std::vector<std::string> columns;  // what is varied: "config", "section.key"...
  std::vector<std::pair<std::string, std::string>> baseline;  // column, value
  std::vector<SweepRun> runs;
};

// All runs of a sweep file: configuration by configuration, in these entry by entry of its `list`,
// in these every combination of `product`, whose last key changes first. Throws Error(kConfig) for
// what read_sweep_file and load_config refuse, more than 10,000 runs, two equal runs, and a
// baseline that no run has; errors of one run name it.
Sweep load_sweep(const std::string& path, std::span<const std::string> overrides = {});

}  // namespace packtrain
