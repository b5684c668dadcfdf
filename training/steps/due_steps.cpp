#include "training/steps/due_steps.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "framework/core/list_text.h"

namespace packtrain {
namespace {

// Number of shares of the run that are over after `done` steps. The addend is for shares such as
// 0.1, which are not exact in binary: ten of them must be the whole run.
double shares_over(double share, std::int64_t done, std::int64_t total_steps) {
  const double part = static_cast<double>(done) / static_cast<double>(total_steps);
  return std::floor(part / share + 1e-9);
}

}  // namespace

std::string describe_length(const RunSection& run, const Planner& planner) {
  const std::int64_t num_steps = planner.num_run_steps(run);
  if (planner.start().step > 0) return fmt::format("{} steps in all", num_steps);
  const auto per_epoch = planner.steps_per_epoch();
  const std::int64_t first = per_epoch ? *per_epoch : planner.num_steps(1);
  const double epochs = static_cast<double>(num_steps) / static_cast<double>(first);
  const char* about = per_epoch ? "" : "about ";
  if (run.max_steps) {
    return fmt::format(
        "{} steps = {}{:.4g} epochs of {}{} steps (run.max_steps; run.num_epochs: {} does not "
        "count)",
        num_steps, about, epochs, about, first, run.num_epochs);
  }
  return fmt::format("{} steps = {} epoch{} of {}{} steps", num_steps, run.num_epochs,
                     run.num_epochs == 1 ? "" : "s", about, first);
}

bool is_due(const Interval& interval, std::int64_t done, std::int64_t total_steps,
            const Planner& planner) {
  if (done < 1) return false;
  if (interval.epoch) return planner.ends_epoch(done - 1);
  if (interval.share > 0) {
    return shares_over(interval.share, done, total_steps) >
           shares_over(interval.share, done - 1, total_steps);
  }
  return interval.steps > 0 && done % interval.steps == 0;
}

std::int64_t next_due(const Interval& interval, std::int64_t done, std::int64_t total_steps,
                      const Planner& planner) {
  if (interval.is_never()) return total_steps;
  for (std::int64_t next = done + 1; next < total_steps; ++next) {
    if (is_due(interval, next, total_steps, planner)) return next;
  }
  return total_steps;
}

std::string describe_due(const Interval& interval, bool at_end, std::int64_t total_steps,
                         const Planner& planner) {
  std::vector<std::int64_t> steps;
  std::int64_t next = 0;
  while (next < total_steps && steps.size() <= kMaxListed) {
    next = next_due(interval, next, total_steps, planner);
    if (next < total_steps) steps.push_back(next);
  }
  const bool ends = at_end || is_due(interval, total_steps, total_steps, planner);
  if (steps.empty()) return ends ? fmt::format("after step {}", total_steps) : "never";
  std::string text = "after steps " + list_start(steps);
  if (ends) text += fmt::format(", {}", total_steps);
  return text;
}

}  // namespace packtrain
