#include "training/steps/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/core/error.h"

namespace packtrain {
namespace {

std::int64_t share_of(double share, std::int64_t steps) {
  return static_cast<std::int64_t>(std::ceil(share * static_cast<double>(steps)));
}

// End of the warm-up in a schedule that is continued at `from`. A finished warm-up stays finished.
// It keeps its share of the steps done until then.
std::int64_t warmup_end(const ScheduleSection& schedule, std::int64_t warmup_steps,
                        const SchedulePosition& from) {
  if (!schedule.warmup_steps) return warmup_steps;
  if (from.step < warmup_steps) return from.position + warmup_steps - from.step;
  if (from.step == 0) return 0;
  const double scale = static_cast<double>(from.position) / static_cast<double>(from.step);
  return static_cast<std::int64_t>(std::round(static_cast<double>(warmup_steps) * scale));
}

double fall(DecayShape shape, double progress) {
  switch (shape) {
    case DecayShape::kLinear:
      return 1.0 - progress;
    case DecayShape::kOneMinusSqrt:
      return 1.0 - std::sqrt(progress);
    case DecayShape::kCosine:
      break;
  }
  return 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
}

}  // namespace

std::int64_t num_warmup_steps(const ScheduleSection& schedule, std::int64_t total_steps) {
  return schedule.warmup_steps.value_or(share_of(schedule.warmup_ratio, total_steps));
}

std::int64_t num_decay_steps(const ScheduleSection& schedule, std::int64_t total_steps) {
  const std::int64_t behind =
      std::max<std::int64_t>(total_steps - num_warmup_steps(schedule, total_steps), 0);
  return schedule.decay_steps.value_or(
      std::min(share_of(schedule.decay_ratio, total_steps), behind));
}

bool schedule_fits(const ScheduleSection& schedule, std::int64_t total_steps) {
  const bool decays = schedule.name == ScheduleKind::kWarmupStableDecay;
  const std::int64_t decay_steps = decays ? num_decay_steps(schedule, total_steps) : 0;
  return num_warmup_steps(schedule, total_steps) + decay_steps <= total_steps;
}

std::vector<std::int64_t> schedule_boundaries(const ScheduleSection& schedule,
                                              std::int64_t total_steps) {
  std::vector<std::int64_t> steps = {0, num_warmup_steps(schedule, total_steps) - 1,
                                     total_steps - 1};
  if (schedule.name == ScheduleKind::kWarmupStableDecay) {
    steps.push_back(total_steps - num_decay_steps(schedule, total_steps) - 1);
  }
  std::erase_if(steps, [&](std::int64_t step) { return step < 0 || step >= total_steps; });
  std::ranges::sort(steps);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

LearningRate::LearningRate(double highest, const ScheduleSection& schedule,
                           std::int64_t total_steps, SchedulePosition from)
    : highest_(highest),
      schedule_(schedule),
      from_(from),
      total_steps_(total_steps - from.step + from.position),
      warmup_steps_(num_warmup_steps(schedule, total_steps_)),
      warmup_end_(warmup_end(schedule, warmup_steps_, from)),
      decay_steps_(num_decay_steps(schedule, total_steps_)) {
  if (warmup_end_ > total_steps_) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("schedule.warmup_steps is {}, but the run has only {} steps",
                            warmup_steps_, total_steps),
                "Lower schedule.warmup_steps, or train longer (run.num_epochs, run.max_steps).");
  }
  const bool decays = schedule.name == ScheduleKind::kWarmupStableDecay;
  if (decays && schedule.decay_steps && warmup_steps_ + decay_steps_ > total_steps) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("schedule.decay_steps is {} behind a warm-up of {} steps, but the run "
                            "has only {}",
                            decay_steps_, warmup_steps_, total_steps),
                "Lower schedule.decay_steps, or train longer (run.num_epochs, run.max_steps).");
  }
}

double LearningRate::at(std::int64_t step) const {
  const std::int64_t position = step - from_.step + from_.position;
  if (position < warmup_end_) {
    const std::int64_t risen = schedule_.warmup_steps ? step : position;
    return highest_ * static_cast<double>(risen + 1) / static_cast<double>(warmup_steps_);
  }
  if (schedule_.name != ScheduleKind::kInverseSqrt) return at_position(position);
  const auto scale = static_cast<double>(std::max<std::int64_t>(warmup_steps_, 1));
  return highest_ * std::max(schedule_.min_ratio, std::sqrt(scale / static_cast<double>(step + 1)));
}

double LearningRate::at_position(std::int64_t position) const {
  const double min_ratio = schedule_.min_ratio;
  if (schedule_.name == ScheduleKind::kConstant) return highest_;
  if (schedule_.name == ScheduleKind::kWarmupStableDecay) {
    const std::int64_t fallen = position - (total_steps_ - decay_steps_) + 1;
    if (fallen <= 0) return highest_;
    const double progress =
        std::min(1.0, static_cast<double>(fallen) / static_cast<double>(decay_steps_));
    return highest_ * (min_ratio + (1.0 - min_ratio) * fall(schedule_.decay_shape, progress));
  }
  const auto decay_steps = std::max<std::int64_t>(total_steps_ - warmup_end_ - 1, 1);
  const double progress =
      std::min(1.0, static_cast<double>(position - warmup_end_) / static_cast<double>(decay_steps));
  if (schedule_.name == ScheduleKind::kLinear) {
    return highest_ * (1.0 - (1.0 - min_ratio) * progress);
  }
  return highest_ * (min_ratio + (1.0 - min_ratio) * fall(DecayShape::kCosine, progress));
}

}  // namespace packtrain
