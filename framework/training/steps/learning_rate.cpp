#include "framework/training/steps/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "framework/support/error.h"

namespace packtrain {

std::int64_t num_warmup_steps(const ScheduleSection& schedule, std::int64_t total_steps) {
  const double by_ratio = std::ceil(schedule.warmup_ratio * static_cast<double>(total_steps));
  return schedule.warmup_steps.value_or(static_cast<std::int64_t>(by_ratio));
}

LearningRate::LearningRate(double highest, const ScheduleSection& schedule,
                           std::int64_t total_steps)
    : highest_(highest),
      kind_(schedule.name),
      min_ratio_(schedule.min_ratio),
      total_steps_(total_steps),
      warmup_steps_(num_warmup_steps(schedule, total_steps)) {
  if (warmup_steps_ > total_steps) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("schedule.warmup_steps is {}, but the run has only {} steps",
                            warmup_steps_, total_steps),
                "Lower schedule.warmup_steps, or train longer (run.num_epochs, run.max_steps).");
  }
}

double LearningRate::at(std::int64_t step) const {
  if (step < warmup_steps_) {
    return highest_ * static_cast<double>(step + 1) / static_cast<double>(warmup_steps_);
  }
  const auto decay_steps = std::max<std::int64_t>(total_steps_ - warmup_steps_ - 1, 1);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup_steps_) / static_cast<double>(decay_steps));
  switch (kind_) {
    case ScheduleKind::kConstant:
      return highest_;
    case ScheduleKind::kLinear:
      return highest_ * (1.0 - (1.0 - min_ratio_) * progress);
    case ScheduleKind::kCosine:
      break;
  }
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return highest_ * (min_ratio_ + (1.0 - min_ratio_) * cosine);
}

}  // namespace packtrain
