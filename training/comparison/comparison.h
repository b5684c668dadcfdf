// Compares settings by figures of finished runs: at the end, at equal optimizer steps, at equal
// device time and at an equal loss. One key of the configuration varies, often batch.strategy.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/comparison/interpolation.h"
#include "training/comparison/paired_difference.h"
#include "training/comparison/run_history.h"

namespace packtrain {

constexpr std::size_t kWarmupSteps = 3;     // of a run: kernels load, caches fill
constexpr std::size_t kLastLossSteps = 10;  // the training loss is a mean over these

// One finished run.
struct ComparedRun {
  std::string variant;  // the value of the key that varies
  std::uint64_t seed = 0;
  std::string folder;
  double cost_utilization = 1;  // of its plan
  RunHistory history;
  std::vector<CurvePoint> energy = {};  // joules after steps (energy_log.h); empty: not measured
};

// Over seeds.
struct Statistic {
  double mean = 0;
  double spread = 0;  // sample standard deviation; 0 of one seed
};

// They are of a variant and the first one, by seed. Empty where a run lacks the figure.
struct VariantDifferences {
  std::optional<PairedDifference> validation_loss;
  std::optional<PairedDifference> training_loss;
  std::optional<PairedDifference> device_seconds;
  std::optional<PairedDifference> joules;
};

struct VariantFigures {
  std::string variant;
  std::optional<Statistic> tokens_per_second_per_device;  // real tokens, without warm-up steps
  std::optional<Statistic> speedup;                       // over the baseline with the same seed
  std::optional<Statistic> peak_memory_gib;               // of rank 0
  std::optional<Statistic> num_steps;
  std::optional<Statistic> device_seconds;    // of all steps
  std::optional<Statistic> padding_fraction;  // mean over steps
  std::optional<Statistic> cost_utilization;
  std::optional<Statistic> training_loss;  // mean over the loss tokens of the last steps
  std::int64_t num_losses_left_out = 0;    // of these steps: not finite
  std::optional<Statistic> validation_loss;
  std::optional<Statistic> loss_at_equal_steps;
  std::optional<Statistic> loss_at_equal_time;
  // Until the validation loss is the one asked for. Empty when a run does not reach it.
  std::optional<Statistic> seconds_to_target;
  std::optional<Statistic> joules_to_target;
  std::optional<Statistic> joules;  // of the whole run, all ranks
  VariantDifferences differences;   // empty for the first variant
};

struct Comparison {
  std::string key = "batch.strategy";  // the one that varies
  std::string baseline;                // of speed-ups: strategy padding, else the first variant
  std::optional<double> target_loss;
  int num_ranks = 1;
  std::int64_t equal_steps = 0;  // the fewest of any run
  double equal_seconds = 0;      // the least device time of any run, or the one asked for
  std::vector<std::uint64_t> seeds;
  std::vector<VariantFigures> variants;  // in the order of the runs
  std::vector<ComparedRun> runs;
};

// Device time of a run after each of its steps, [num_steps] seconds. It does not include evaluation
// and checkpoints. A warm-up step counts as the mean of the other steps, if there are others.
std::vector<double> device_seconds(const RunHistory& history);

// Validation loss by optimizer steps, or by device seconds.
std::vector<CurvePoint> loss_over_steps(const RunHistory& history);
std::vector<CurvePoint> loss_over_seconds(const RunHistory& history);

struct ComparisonRequest {
  std::string key = "batch.strategy";
  // To compare at. Nothing: the least device time of any run.
  std::optional<double> device_time_s = {};
  std::optional<double> target_loss = {};
};

// `runs`: at least one, each with a step, and every variant with every seed. Losses between two
// evaluations are interpolated. A figure is empty when a run of the variant lacks it or it is not
// finite there.
Comparison compare_runs(std::vector<ComparedRun> runs, int num_ranks,
                        const ComparisonRequest& request = {});

}  // namespace packtrain
