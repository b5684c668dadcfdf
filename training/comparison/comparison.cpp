#include "training/comparison/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "framework/core/units.h"

namespace packtrain {
namespace {

constexpr const char* kBaseline = "padding";

using Figure = std::optional<double>;
using FigureOfRun = std::function<Figure(const ComparedRun&)>;

std::optional<Statistic> statistic(std::span<const Figure> values) {
  const bool complete =
      std::ranges::all_of(values, [](const Figure& v) { return v && std::isfinite(*v); });
  if (values.empty() || !complete) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  Statistic result;
  for (const Figure& value : values) result.mean += *value / count;
  for (const Figure& value : values) result.spread += std::pow(*value - result.mean, 2);
  result.spread = values.size() > 1 ? std::sqrt(result.spread / (count - 1)) : 0;
  return result;
}

// Steps after the warm-up; all steps when the run has no others.
std::span<const StepRecord> steady_steps(const RunHistory& history) {
  const std::span steps(history.steps);
  return steps.subspan(steps.size() > kWarmupSteps ? kWarmupSteps : 0);
}

double tokens_per_second(const RunHistory& history) {
  double tokens = 0;
  double seconds = 0;
  for (const StepRecord& step : steady_steps(history)) {
    tokens += static_cast<double>(step.num_tokens);
    seconds += step.step_time_s;
  }
  return tokens / seconds;
}

double peak_memory_gib(const RunHistory& history) {
  const auto peak = std::ranges::max_element(history.steps, {}, &StepRecord::peak_memory_bytes);
  return static_cast<double>(peak->peak_memory_bytes) / kGibibyte;
}

double padding_fraction(const RunHistory& history) {
  double sum = 0;
  for (const StepRecord& step : history.steps) sum += step.padding_fraction;
  return sum / static_cast<double>(history.steps.size());
}

std::span<const StepRecord> last_steps(const RunHistory& history) {
  const std::span steps(history.steps);
  return steps.last(std::min(kLastLossSteps, steps.size()));
}

// Mean over the last steps with a finite loss.
double training_loss(const RunHistory& history) {
  double loss = 0;
  double tokens = 0;
  for (const StepRecord& step : last_steps(history)) {
    if (!std::isfinite(step.loss)) continue;
    loss += step.loss * static_cast<double>(step.num_loss_tokens);
    tokens += static_cast<double>(step.num_loss_tokens);
  }
  return loss / tokens;
}

// Counts over all runs of a strategy.
std::int64_t count_left_out(const std::string& strategy, const Comparison& comparison) {
  std::int64_t count = 0;
  for (const ComparedRun& run : comparison.runs) {
    if (run.strategy != strategy) continue;
    count += std::ranges::count_if(
        last_steps(run.history), [](const StepRecord& step) { return !std::isfinite(step.loss); });
  }
  return count;
}

Figure final_validation_loss(const RunHistory& history) {
  const auto& evaluations = history.evaluations;
  const bool at_end = !evaluations.empty() && evaluations.back().step == history.steps.back().step;
  return at_end ? Figure(evaluations.back().loss) : std::nullopt;
}

// Speed relative to the run of strategy padding with the same seed.
Figure speedup(const ComparedRun& run, std::span<const ComparedRun> runs) {
  const auto baseline = std::ranges::find_if(runs, [&](const ComparedRun& other) {
    return other.strategy == kBaseline && other.seed == run.seed;
  });
  if (baseline == runs.end()) return std::nullopt;
  return tokens_per_second(run.history) / tokens_per_second(baseline->history);
}

StrategyFigures figures_of(const std::string& strategy, const Comparison& comparison) {
  const auto over_seeds = [&](const FigureOfRun& figure) {
    std::vector<Figure> values;
    for (const ComparedRun& run : comparison.runs) {
      if (run.strategy == strategy) values.push_back(figure(run));
    }
    return statistic(values);
  };
  using Run = const ComparedRun&;
  const double equal_steps = static_cast<double>(comparison.equal_steps);
  StrategyFigures figures;
  figures.strategy = strategy;
  figures.tokens_per_second_per_device =
      over_seeds([&](Run run) { return tokens_per_second(run.history) / comparison.num_ranks; });
  figures.speedup = over_seeds([&](Run run) { return speedup(run, comparison.runs); });
  figures.peak_memory_gib = over_seeds([](Run run) { return peak_memory_gib(run.history); });
  figures.num_steps =
      over_seeds([](Run run) { return static_cast<double>(run.history.steps.size()); });
  figures.device_seconds = over_seeds([](Run run) { return device_seconds(run.history).back(); });
  figures.padding_fraction = over_seeds([](Run run) { return padding_fraction(run.history); });
  figures.cost_utilization = over_seeds([](Run run) { return run.cost_utilization; });
  figures.training_loss = over_seeds([](Run run) { return training_loss(run.history); });
  figures.num_losses_left_out = count_left_out(strategy, comparison);
  figures.validation_loss = over_seeds([](Run run) { return final_validation_loss(run.history); });
  figures.loss_at_equal_steps =
      over_seeds([&](Run run) { return interpolate(loss_over_steps(run.history), equal_steps); });
  figures.loss_at_equal_time = over_seeds([&](Run run) {
    return interpolate(loss_over_seconds(run.history), comparison.equal_seconds);
  });
  return figures;
}

template <class Value>
void add_once(std::vector<Value>& values, const Value& value) {
  if (std::ranges::find(values, value) == values.end()) values.push_back(value);
}

}  // namespace

std::vector<double> device_seconds(const RunHistory& history) {
  const auto steady = steady_steps(history);
  double mean = 0;
  for (const StepRecord& step : steady) {
    mean += step.step_time_s / static_cast<double>(steady.size());
  }
  const std::size_t num_warmup = history.steps.size() - steady.size();
  std::vector<double> seconds;
  double sum = 0;
  for (const StepRecord& step : history.steps) {
    sum += seconds.size() < num_warmup ? mean : step.step_time_s;
    seconds.push_back(sum);
  }
  return seconds;
}

std::vector<CurvePoint> loss_over_steps(const RunHistory& history) {
  std::vector<CurvePoint> curve;
  for (const EvaluationRecord& evaluation : history.evaluations) {
    curve.push_back({static_cast<double>(evaluation.step), evaluation.loss});
  }
  return curve;
}

std::vector<CurvePoint> loss_over_seconds(const RunHistory& history) {
  const std::vector<double> seconds = device_seconds(history);
  std::vector<CurvePoint> curve = loss_over_steps(history);
  for (CurvePoint& point : curve) point.x = seconds.at(static_cast<std::size_t>(point.x) - 1);
  return curve;
}

Comparison compare_runs(std::vector<ComparedRun> runs, int num_ranks,
                        std::optional<double> device_time_s) {
  Comparison comparison;
  comparison.num_ranks = num_ranks;
  comparison.equal_steps = std::numeric_limits<std::int64_t>::max();
  comparison.equal_seconds = std::numeric_limits<double>::infinity();
  std::vector<std::string> strategies;
  for (const ComparedRun& run : runs) {
    const auto num_steps = static_cast<std::int64_t>(run.history.steps.size());
    comparison.equal_steps = std::min(comparison.equal_steps, num_steps);
    comparison.equal_seconds =
        std::min(comparison.equal_seconds, device_seconds(run.history).back());
    add_once(strategies, run.strategy);
    add_once(comparison.seeds, run.seed);
  }
  if (device_time_s) comparison.equal_seconds = *device_time_s;
  comparison.runs = std::move(runs);
  for (const std::string& strategy : strategies) {
    comparison.strategies.push_back(figures_of(strategy, comparison));
  }
  return comparison;
}

}  // namespace packtrain
