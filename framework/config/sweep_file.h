// A sweep file as written: configuration files and the keys that vary.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/config/setting.h"

namespace packtrain {

// A key of the configuration and its values in the sweep.
struct SweepAxis {
  std::string key;    // "section.key"
  std::string where;  // for messages
  std::vector<Setting> values;
};

struct SweepFile {
  std::vector<std::string> configs;  // files
  std::string output;                // folder of all runs and results
  std::int64_t num_ranks = 1;        // ranks of each run
  std::int64_t num_at_once = 1;      // runs in parallel
  // The figure whose lowest or highest value makes a run the best. "": lowest validation loss, or
  // training loss without one.
  std::string best_figure;
  bool best_is_lowest = true;
  std::string best_where;
  std::vector<Setting> baseline;           // settings of the run that the others are compared with
  std::vector<Setting> settings;           // settings of every run
  std::vector<SweepAxis> product;          // all combinations of these
  std::vector<std::vector<Setting>> list;  // settings of each entry; one empty entry without a list
};

// Reads `path`. `overrides` ("section.key=value") change keys of its section `sweep`, replace the
// values of a key of `product`, or become settings of every run.
// Throws Error(kConfig) with file, line and key for a file that load_config would reject, and for
// unknown sections and keys of the sweep. It also throws for empty lists, duplicate values or
// files, a key in two places, and run.output.
SweepFile read_sweep_file(const std::string& path, std::span<const std::string> overrides);

}  // namespace packtrain
