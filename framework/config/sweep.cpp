#include "framework/config/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "framework/config/load.h"
#include "framework/config/resolve.h"
#include "framework/config/sweep_names.h"
#include "framework/core/error.h"
#include "framework/core/file.h"

namespace packtrain {
namespace {

constexpr std::size_t kMaxRuns = 10'000;

// "configs/olmo-1b.yaml" -> "olmo-1b", or the whole path when two files have the same name.
std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::map<std::string, int> counts;
  const auto stem = [](const std::string& path) {
    return std::filesystem::path(path).stem().string();
  };
  for (const std::string& path : paths) ++counts[stem(path)];
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    names.push_back(counts[stem(path)] == 1 ? stem(path) : path);
  }
  return names;
}

std::vector<std::string> find_columns(const SweepFile& file) {
  std::vector<std::string> columns;
  const auto add = [&columns](const std::string& key) {
    if (std::ranges::find(columns, key) == columns.end()) columns.push_back(key);
  };
  if (file.configs.size() > 1) add(kSweepConfigColumn);
  for (const auto& entry : file.list) {
    for (const Setting& setting : entry) add(setting.name());
  }
  for (const SweepAxis& axis : file.product) add(axis.key);
  return columns;
}

std::size_t count_combinations(const SweepFile& file, const std::string& path) {
  std::size_t count = 1;
  for (const SweepAxis& axis : file.product) {
    count *= axis.values.size();
    if (count > kMaxRuns) break;
  }
  const std::size_t num_runs = count * file.list.size() * file.configs.size();
  if (count <= kMaxRuns && num_runs <= kMaxRuns) return count;
  reject_at(path, fmt::format("these are more than {} runs", kMaxRuns),
            "Shorten the lists of product, or make several sweeps.");
}

// Combination number `index`; the last axis changes first.
std::vector<Setting> combination(const std::vector<SweepAxis>& axes, std::size_t index) {
  std::vector<Setting> settings(axes.size());
  for (std::size_t k = axes.size(); k-- > 0;) {
    settings[k] = axes[k].values[index % axes[k].values.size()];
    index /= axes[k].values.size();
  }
  return settings;
}

SweepRun make_run(const Sweep& sweep, const std::string& config_name,
                  const std::vector<Setting>& settings) {
  SweepRun run;
  run.config = resolve_settings(settings);
  run.hash = hash_sweep_run(run.config, sweep.file.num_ranks);
  for (const std::string& column : sweep.columns) {
    run.values.push_back(column == kSweepConfigColumn ? config_name
                                                      : resolved_value(run.config, column));
  }
  run.name = sweep_run_name(sweep.columns, run.values, run.hash);
  run.config.run.output = fmt::format("{}/runs/{}", sweep.file.output, run.name);
  return run;
}

// Adds the run's varied settings to the error when its configuration is invalid.
SweepRun make_named_run(const Sweep& sweep, const std::string& config_name,
                        const std::vector<Setting>& settings, const std::vector<Setting>& varied) {
  try {
    return make_run(sweep, config_name, settings);
  } catch (const Error& error) {
    std::string what = "the run of " + config_name;
    for (const Setting& setting : varied) {
      what += fmt::format(", {} = {}", setting.name(), write_setting(setting));
    }
    throw Error(error.category(), fmt::format("{}: {}", what, error.message()), error.advice());
  }
}

void append(std::vector<Setting>& settings, const std::vector<Setting>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
}

// All runs of one configuration file.
void add_runs(const std::string& path, const std::string& name, std::size_t num_combinations,
              Sweep& sweep) {
  std::vector<Setting> base = read_settings(read_text(path, ErrorCategory::kConfig), path);
  append(base, sweep.file.settings);
  for (const auto& entry : sweep.file.list) {
    for (std::size_t k = 0; k < num_combinations; ++k) {
      std::vector<Setting> varied = entry;
      append(varied, combination(sweep.file.product, k));
      std::vector<Setting> settings = base;
      append(settings, varied);
      sweep.runs.push_back(make_named_run(sweep, name, settings, varied));
    }
  }
}

void check_all_differ(const Sweep& sweep, const std::string& path) {
  std::map<std::string, std::size_t> seen;
  for (std::size_t k = 0; k < sweep.runs.size(); ++k) {
    const auto [first, is_new] = seen.emplace(sweep.runs[k].hash, k);
    if (is_new) continue;
    reject_at(path,
              fmt::format("runs {} and {} ({}) have the same configuration", first->second + 1,
                          k + 1, sweep.runs[k].name),
              "Remove the entry or the file that gives a run which another gives already.");
  }
}

void find_baseline(Sweep& sweep) {
  for (const Setting& setting : sweep.file.baseline) {
    const std::string value = write_setting(setting);
    const auto column = std::ranges::find(sweep.columns, setting.name());
    if (column == sweep.columns.end()) {
      reject_at(setting.where, fmt::format("sweep.baseline: {} is not varied", setting.name()),
                fmt::format("Varied are: {}.", fmt::join(sweep.columns, ", ")));
    }
    const auto k = static_cast<std::size_t>(column - sweep.columns.begin());
    std::set<std::string> known;
    for (const SweepRun& run : sweep.runs) known.insert(run.values[k]);
    if (!known.contains(value)) {
      reject_at(setting.where,
                fmt::format("sweep.baseline: no run has {}: {}", setting.name(), value),
                fmt::format("Runs have: {}.", fmt::join(known, ", ")));
    }
    sweep.baseline.emplace_back(setting.name(), value);
  }
}

}  // namespace

Sweep load_sweep(const std::string& path, std::span<const std::string> overrides) {
  Sweep sweep;
  sweep.file = read_sweep_file(path, overrides);
  sweep.columns = find_columns(sweep.file);
  const std::size_t num_combinations = count_combinations(sweep.file, path);
  const std::vector<std::string> names = short_names(sweep.file.configs);
  for (std::size_t k = 0; k < names.size(); ++k) {
    add_runs(sweep.file.configs[k], names[k], num_combinations, sweep);
  }
  check_all_differ(sweep, path);
  find_baseline(sweep);
  return sweep;
}

}  // namespace packtrain
