// Trains every strategy, or every value of another key, from the same start. All runs are planned
// first, then run one after another in the same world.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/shard_groups.h"
#include "training/comparison/comparison.h"
#include "training/comparison/varied_key.h"

namespace packtrain {

struct ComparisonOptions {
  std::string config_path;
  std::vector<std::string> overrides;  // section.key=value
  VariedKey varied;
  int num_seeds = 1;                 // run.seed, run.seed + 1, ...
  std::vector<std::uint64_t> seeds;  // instead of num_seeds
  std::string output;                // folder of all runs; "" = run.output
  bool equal_tokens = false;         // a step of fixed_length and multipack has as many rows of
                              // data.max_length as hold the mean tokens of a step of the others
  std::optional<double> device_time_s;  // device time to compare at; nothing: the least of any run
  std::optional<double> target_loss;    // validation loss whose time and energy is reported
};

struct VariantRun {
  std::string variant;  // value of the key
  std::uint64_t seed = 0;
  Config config;  // run.output: OUTPUT/VARIANT-seed-SEED
  std::int64_t num_steps = 0;
  double cost_utilization = 1;  // of the first epoch
};

// One run for each value and seed, seed by seed. If
// run.evaluate_steps is 0, it becomes a tenth of the shortest run, so that there is a curve. Throws
// an Error naming the value when one cannot be planned.
std::vector<VariantRun> plan_comparison(const ComparisonOptions& options, const RankHosts& hosts);

// Trains the unfinished runs and compares. Collective. Rank 0 gets the comparison, other ranks
// nothing. Throws Error(kConfig) before the first one trains when a run's folder holds a run of
// other settings or of another number of ranks. Throws Error(kStopped) when asked to stop, as
// run_training does. Another call resumes from there.
std::optional<Comparison> run_comparison(const std::vector<VariantRun>& runs,
                                         const ComparisonOptions& options, World& world);

}  // namespace packtrain
