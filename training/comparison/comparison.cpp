#include "training/comparison/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "framework/core/units.h"

namespace packtrain {
namespace {

constexpr const char* kPadding = "padding";

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

// Counts over all runs of a variant.
std::int64_t count_left_out(const std::string& variant, const Comparison& comparison) {
  std::int64_t count = 0;
  for (const ComparedRun& run : comparison.runs) {
    if (run.variant != variant) continue;
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

const ComparedRun* find_run(const std::string& variant, std::uint64_t seed,
                            std::span<const ComparedRun> runs) {
  const auto found = std::ranges::find_if(
      runs, [&](const ComparedRun& run) { return run.variant == variant && run.seed == seed; });
  return found == runs.end() ? nullptr : &*found;
}

// Speed relative to the baseline's run with the same seed.
Figure speedup(const ComparedRun& run, const Comparison& comparison) {
  const ComparedRun* baseline = find_run(comparison.baseline, run.seed, comparison.runs);
  if (baseline == nullptr) return std::nullopt;
  return tokens_per_second(run.history) / tokens_per_second(baseline->history);
}

Figure joules(const ComparedRun& run) {
  return run.energy.empty() ? Figure() : run.energy.back().y;
}

Figure seconds_to(Figure target, const ComparedRun& run) {
  if (!target) return std::nullopt;
  return first_at_most(loss_over_seconds(run.history), *target);
}

Figure joules_to(Figure target, const ComparedRun& run) {
  if (!target) return std::nullopt;
  const Figure step = first_at_most(loss_over_steps(run.history), *target);
  return step ? interpolate(run.energy, *step) : std::nullopt;
}

// Nothing unless each seed has a finite value of both.
std::optional<PairedDifference> difference_of(const std::string& variant,
                                              const Comparison& comparison,
                                              const FigureOfRun& figure) {
  const std::string& first = comparison.runs.front().variant;
  if (variant == first) return std::nullopt;
  std::vector<double> differences;
  for (const ComparedRun& run : comparison.runs) {
    if (run.variant != variant) continue;
    const ComparedRun* const other = find_run(first, run.seed, comparison.runs);
    const Figure value = figure(run);
    const Figure of_first = other == nullptr ? Figure() : figure(*other);
    if (!value || !of_first || !std::isfinite(*value - *of_first)) return std::nullopt;
    differences.push_back(*value - *of_first);
  }
  return paired_difference(differences);
}

VariantDifferences differences_of(const std::string& variant, const Comparison& comparison) {
  using Run = const ComparedRun&;
  VariantDifferences found;
  found.validation_loss = difference_of(variant, comparison,
                                        [](Run run) { return final_validation_loss(run.history); });
  found.training_loss =
      difference_of(variant, comparison, [](Run run) { return training_loss(run.history); });
  found.device_seconds = difference_of(variant, comparison,
                                       [](Run run) { return device_seconds(run.history).back(); });
  found.joules = difference_of(variant, comparison, joules);
  return found;
}

VariantFigures figures_of(const std::string& variant, const Comparison& comparison) {
  const auto over_seeds = [&](const FigureOfRun& figure) {
    std::vector<Figure> values;
    for (const ComparedRun& run : comparison.runs) {
      if (run.variant == variant) values.push_back(figure(run));
    }
    return statistic(values);
  };
  using Run = const ComparedRun&;
  const double equal_steps = static_cast<double>(comparison.equal_steps);
  VariantFigures figures;
  figures.variant = variant;
  figures.tokens_per_second_per_device =
      over_seeds([&](Run run) { return tokens_per_second(run.history) / comparison.num_ranks; });
  figures.speedup = over_seeds([&](Run run) { return speedup(run, comparison); });
  figures.peak_memory_gib = over_seeds([](Run run) { return peak_memory_gib(run.history); });
  figures.num_steps =
      over_seeds([](Run run) { return static_cast<double>(run.history.steps.size()); });
  figures.device_seconds = over_seeds([](Run run) { return device_seconds(run.history).back(); });
  figures.padding_fraction = over_seeds([](Run run) { return padding_fraction(run.history); });
  figures.cost_utilization = over_seeds([](Run run) { return run.cost_utilization; });
  figures.training_loss = over_seeds([](Run run) { return training_loss(run.history); });
  figures.num_losses_left_out = count_left_out(variant, comparison);
  figures.validation_loss = over_seeds([](Run run) { return final_validation_loss(run.history); });
  figures.loss_at_equal_steps =
      over_seeds([&](Run run) { return interpolate(loss_over_steps(run.history), equal_steps); });
  figures.loss_at_equal_time = over_seeds([&](Run run) {
    return interpolate(loss_over_seconds(run.history), comparison.equal_seconds);
  });
  const Figure target = comparison.target_loss;
  figures.seconds_to_target = over_seeds([&](Run run) { return seconds_to(target, run); });
  figures.joules_to_target = over_seeds([&](Run run) { return joules_to(target, run); });
  figures.joules = over_seeds(joules);
  figures.differences = differences_of(variant, comparison);
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
  for (CurvePoint& point : curve) {  // an evaluation before the first step is at 0 seconds
    if (point.x > 0) point.x = seconds.at(static_cast<std::size_t>(point.x) - 1);
  }
  return curve;
}

Comparison compare_runs(std::vector<ComparedRun> runs, int num_ranks,
                        const ComparisonRequest& request) {
  Comparison comparison;
  comparison.key = request.key;
  comparison.target_loss = request.target_loss;
  comparison.num_ranks = num_ranks;
  comparison.equal_steps = std::numeric_limits<std::int64_t>::max();
  comparison.equal_seconds = std::numeric_limits<double>::infinity();
  std::vector<std::string> variants;
  for (const ComparedRun& run : runs) {
    const auto num_steps = static_cast<std::int64_t>(run.history.steps.size());
    comparison.equal_steps = std::min(comparison.equal_steps, num_steps);
    comparison.equal_seconds =
        std::min(comparison.equal_seconds, device_seconds(run.history).back());
    add_once(variants, run.variant);
    add_once(comparison.seeds, run.seed);
  }
  if (request.device_time_s) comparison.equal_seconds = *request.device_time_s;
  const bool is_strategy = comparison.key == ComparisonRequest().key;
  comparison.baseline = is_strategy ? kPadding : variants.front();
  comparison.runs = std::move(runs);
  for (const std::string& variant : variants) {
    comparison.variants.push_back(figures_of(variant, comparison));
  }
  return comparison;
}

}  // namespace packtrain
