// A sweep file as written: which configurations, and what is varied in them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/config/setting.h"

namespace packtrain {

// A key of the configuration and the values that it is given in turn.
struct SweepAxis {
  std::string key;    // "section.key"
  std::string where;  // for messages
  std::vector<Setting> values;
};

struct SweepFile {
  std::vector<std::string> configs;  // files
  std::string output;                // folder of all runs and of the results
  std::int64_t num_ranks = 1;        // of a run
  std::int64_t num_at_once = 1;      // runs
  // The figure whose lowest or highest value is the best run's; "": lowest validation or training
  // loss.
  std::string best_figure;
  bool best_is_lowest = true;
  std::string best_where;
  std::vector<Setting> baseline;           // what the run has that others are held against
  std::vector<Setting> settings;           // of every run
  std::vector<SweepAxis> product;          // every combination of these
  std::vector<std::vector<Setting>> list;  // each with each of these; one without settings if none
};

// Reads `path`; `overrides` ("section.key=value") change keys of its section `sweep`, replace the
// values of a key of `product`, or are settings of every run. Throws Error(kConfig) with file, line
// and key for what load_config refuses of a file, unknown sections and keys of the sweep, empty
// lists, a value or a file given twice, a key given in two places, and run.output.
SweepFile read_sweep_file(const std::string& path, std::span<const std::string> overrides);

}  // namespace packtrain
