#include "training/guards/step_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/math.h"

namespace packtrain {
namespace {

using nlohmann::json;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNormalDeviation =
    1.4826;  // scales the median distance of normal values to their deviation
constexpr double kSmallestDistance = 0.01;  // relative to the median

json window_json(const SpikeWindow& window) {
  json entries = json::array();
  for (const SpikeWindow::Entry& entry : window.entries()) {
    entries.push_back({entry.step, entry.value});
  }
  return entries;
}

void restore(const json& entries, SpikeWindow& window) {
  for (const json& entry : entries) window.add(entry.at(0), entry.at(1));
}

}  // namespace

void SpikeWindow::add(std::int64_t step, double value) {
  entries_.push_back({step, value});
  // One more than the window, because the newest is not part of it yet (StepGuard::bounds).
  while (std::ssize(entries_) > size_ + 1) entries_.pop_front();
}

double SpikeWindow::bound(std::int64_t before) const {
  std::vector<double> values;
  for (const Entry& entry : entries_) {
    if (entry.step < before) values.push_back(entry.value);
  }
  if (2 * std::ssize(values) < size_) return kInfinity;
  const double center = upper_median(values);
  for (double& value : values) value = std::abs(value - center);
  const double distance = std::max(upper_median(values), kSmallestDistance * std::abs(center));
  return center + threshold_ * kNormalDeviation * distance;
}

StepGuard::StepGuard(const GuardSection& options, std::set<std::int64_t> left_out,
                     const std::string& state)
    : options_(options),
      left_out_(std::move(left_out)),
      losses_(options.spike_window, options.spike_threshold),
      norms_(options.spike_window, options.spike_threshold) {
  if (state.empty()) return;
  try {
    const json saved = json::parse(state);
    restore(saved.at("losses"), losses_);
    restore(saved.at("norms"), norms_);
    num_consecutive_skipped_ = saved.at("num_skipped_in_a_row");
  } catch (const json::exception& error) {
    throw Error(ErrorCategory::kCheckpoint,
                fmt::format("the checkpoint's 'guard' is damaged: {}", error.what()),
                "Use an older checkpoint.");
  }
}

RefusalBounds StepGuard::bounds(std::int64_t number) const {
  if (left_out_.contains(number)) return {.loss = -kInfinity, .norm = -kInfinity};
  if (options_.spikes != Spikes::kSkip) return {};
  return {.loss = losses_.bound(number - 1), .norm = norms_.bound(number - 1)};
}

StepGuard::Verdict StepGuard::judge(std::int64_t number, const StepOutcome::Values& values) {
  if (!values.applied) return discard(number, values);
  num_consecutive_skipped_ = 0;
  if (options_.spikes == Spikes::kWarn &&
      (values.loss > losses_.bound(number - 1) || values.grad_norm > norms_.bound(number - 1))) {
    log_warning(
        "step {}: a spike: loss {:.4g} (usual up to {:.4g}), gradient norm {:.4g} (usual up to "
        "{:.4g})",
        number, values.loss, losses_.bound(number - 1), values.grad_norm, norms_.bound(number - 1));
  }
  losses_.add(number, values.loss);
  norms_.add(number, values.grad_norm);
  return Verdict::kApplied;
}

void StepGuard::stop(std::int64_t number, const std::string& what) const {
  const bool is_untrained = losses_.entries().empty() && number - 1 <= num_consecutive_skipped_;
  throw Error(ErrorCategory::kNonFinite,
              fmt::format("step {}: {}: the update was not applied", number, what),
              is_untrained
                  ? "No update was made before it, so the learning rate is not the cause: the "
                    "weights, the data or the precision are. Try precision.compute: fp32, then "
                    "another model or other data."
                  : "Lower optimizer.learning_rate or lengthen the warm-up; the newest checkpoint "
                    "is from before this step. guard.non_finite says what else a run may do.");
}

StepGuard::Verdict StepGuard::discard(std::int64_t number, const StepOutcome::Values& values) {
  const std::string what =
      fmt::format("loss {} and gradient norm {}", values.loss, values.grad_norm);
  if (left_out_.contains(number)) {
    log_warning("step {}: left out, as the run was rewound because of it ({})", number, what);
    return Verdict::kSkipped;
  }
  const bool finite = std::isfinite(values.loss) && std::isfinite(values.grad_norm);
  if (!finite && options_.non_finite == NonFinite::kStop) stop(number, what);
  if (++num_consecutive_skipped_ > options_.max_skipped_steps) {
    stop(number, fmt::format("{}, after {} skipped steps in a row (guard.max_skipped_steps)", what,
                             options_.max_skipped_steps));
  }
  if (!finite && options_.non_finite == NonFinite::kRewind) {
    if (std::ssize(left_out_) >= options_.max_skipped_steps) {
      stop(number, fmt::format("{}, after the run was rewound {} times (guard.max_skipped_steps)",
                               what, left_out_.size()));
    }
    rewind_step_ = rewind_step_.value_or(number);
    return Verdict::kRewind;
  }
  log_warning("step {}: {}: skipped ({} in a row)", number, what, num_consecutive_skipped_);
  return Verdict::kSkipped;
}

std::string StepGuard::state() const {
  return json{{"losses", window_json(losses_)},
              {"norms", window_json(norms_)},
              {"num_skipped_in_a_row", num_consecutive_skipped_}}
      .dump();
}

}  // namespace packtrain
