// Compares strategies by figures of finished runs: at the end, at equal optimizer steps and at
// equal device time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "training/comparison/interpolation.h"
#include "training/comparison/run_history.h"

namespace packtrain {

constexpr std::size_t kWarmupSteps = 3;     // of a run: kernels load, caches fill
constexpr std::size_t kLastLossSteps = 10;  // the training loss is a mean over these

// One finished run.
struct ComparedRun {
  std::string strategy;
  std::uint64_t seed = 0;
  std::string folder;
  double cost_utilization = 1;  // of its plan
  RunHistory history;
};

// Over seeds.
struct Statistic {
  double mean = 0;
  double spread = 0;  // sample standard deviation; 0 of one seed
};

struct StrategyFigures {
  std::string strategy;
  std::optional<Statistic> tokens_per_second_per_device;  // real tokens, without warm-up steps
  std::optional<Statistic> speedup;                       // over padding with the same seed
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
};

struct Comparison {
  int num_ranks = 1;
  std::int64_t equal_steps = 0;  // the fewest of any run
  double equal_seconds = 0;      // the least device time of any run, or the one asked for
  std::vector<std::uint64_t> seeds;
  std::vector<StrategyFigures> strategies;  // in the order of the runs
  std::vector<ComparedRun> runs;
};

// Device time of a run after each of its steps, [num_steps] seconds. It does not include evaluation
// and checkpoints. A warm-up step counts as the mean of the other steps, if there are others.
std::vector<double> device_seconds(const RunHistory& history);

// Validation loss by optimizer steps, or by device seconds.
std::vector<CurvePoint> loss_over_steps(const RunHistory& history);
std::vector<CurvePoint> loss_over_seconds(const RunHistory& history);

// `runs`: at least one, each with a step, and every strategy with every seed. Losses between two
// evaluations are interpolated. A figure is empty when a run of the strategy lacks it or it is not
// finite there.
Comparison compare_runs(std::vector<ComparedRun> runs, int num_ranks,
                        std::optional<double> device_time_s);

}  // namespace packtrain
