// A sweep: a list of runs whose configurations differ in a few keys.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/config.h"
#include "framework/config/sweep_file.h"

namespace packtrain {

struct SweepRun {
  std::string name;  // unique, valid as a folder name, the same when the sweep is read again
  std::string hash;  // of configuration without run.output, and ranks
  std::vector<std::string> values;  // of Sweep::columns
  Config config;                    // run.output: OUTPUT/runs/NAME
};

struct Sweep {
  SweepFile file;
  std::vector<std::string> columns;  // names of the varied keys: "config", "section.key"...
  std::vector<std::pair<std::string, std::string>> baseline;  // column, value
  std::vector<SweepRun> runs;
};

// All runs of a sweep file. The order is by configuration file, then by entry of `list`, then by
// combination of `product`, whose last key changes first.
// Throws Error(kConfig) for all errors of read_sweep_file and load_config, more than 10,000 runs,
// two equal runs, and a baseline that matches no run. Errors of one run contain its name.
Sweep load_sweep(const std::string& path, std::span<const std::string> overrides = {});

}  // namespace packtrain
