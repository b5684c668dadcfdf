// Learning rate by step: linear warm-up, then constant, linear or cosine decay.
#pragma once

#include <cstdint>

#include "framework/config/config.h"

namespace packtrain {

// Of a run of `total_steps`; may be more than these.
std::int64_t num_warmup_steps(const ScheduleSection& schedule, std::int64_t total_steps);

class LearningRate {
 public:
  // Throws Error(kConfig) when the warm-up is longer than the run.
  LearningRate(double highest, const ScheduleSection& schedule, std::int64_t total_steps);

  // Of optimizer step `step`, from 0. Warm-up step s of W has (s + 1) / W of the highest rate, so
  // that no step is lost at rate 0; the last step of a decay has min_ratio of it.
  double at(std::int64_t step) const;
  std::int64_t warmup_steps() const { return warmup_steps_; }

 private:
  double highest_;
  ScheduleKind kind_;
  double min_ratio_;
  std::int64_t total_steps_;
  std::int64_t warmup_steps_;
};

}  // namespace packtrain
