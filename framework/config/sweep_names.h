// Names and hashes of the runs of a sweep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "framework/config/config.h"

namespace packtrain {

// The column that names a run's configuration file, where a sweep has several.
inline constexpr const char* kSweepConfigColumn = "config";
inline constexpr std::size_t kSweepHashDigits = 8;  // of the hash in a name

// Part of a folder name for a value: "multipack", "learning_rate=0.001".
std::string sweep_name_part(const std::string& column, const std::string& value);

// The parts of all columns and the hash's first digits: "multipack,seed=1-0a1b2c3d".
std::string sweep_run_name(std::span<const std::string> columns,
                           std::span<const std::string> values, const std::string& hash);

// XXH3-128 (hex) of the configuration without run.output, and the number of ranks.
std::string hash_sweep_run(Config config, std::int64_t num_ranks);

}  // namespace packtrain
