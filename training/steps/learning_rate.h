// Learning rate by step: linear warm-up, then constant or one of several decays.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/config/config.h"

namespace packtrain {

// Warm-up steps of a run of `total_steps`. May exceed `total_steps`.
std::int64_t num_warmup_steps(const ScheduleSection& schedule, std::int64_t total_steps);
// Steps at the end of a run with warmup_stable_decay in which the rate falls. With
// schedule.decay_steps it may exceed the steps after the warm-up.
std::int64_t num_decay_steps(const ScheduleSection& schedule, std::int64_t total_steps);

// True when warm-up and decay together are no longer than the run.
bool schedule_fits(const ScheduleSection& schedule, std::int64_t total_steps);

// Position in the schedule of a run that resumed with other batches. Its optimizer step `step`
// (from 0) has the learning rate of step `position` of a run that had these batches from its start.
struct SchedulePosition {
  std::int64_t step = 0;
  std::int64_t position = 0;

  friend bool operator==(const SchedulePosition&, const SchedulePosition&) = default;
};

// Steps (from 0, ascending) of a run at which its rate begins, changes its course or ends.
std::vector<std::int64_t> schedule_boundaries(const ScheduleSection& schedule,
                                              std::int64_t total_steps);

class LearningRate {
 public:
  // Throws Error(kConfig) when the warm-up, or the warm-up and the decay of warmup_stable_decay,
  // are longer than the run. `total_steps`: number of the run's last step.
  LearningRate(double highest, const ScheduleSection& schedule, std::int64_t total_steps,
               SchedulePosition from = {});

  // Learning rate of optimizer step `step`, from 0. Warm-up step s of W has (s + 1) / W of the
  // highest rate, so that no step has rate 0. The last step of a decay has min_ratio of the highest
  // rate.
  // With warmup_stable_decay (Hu et al., "MiniCPM", arXiv 2404.06395, section 4.2) the rate is
  // highest until the last D steps. Step d of these has min_ratio + (1 - min_ratio) f((d + 1) / D)
  // of it. Here f(x) is 1 - x, (1 + cos(pi x)) / 2, or 1 - sqrt(x) (Haegele et al., arXiv
  // 2405.18392).
  // With inverse_sqrt (Vaswani et al., "Attention Is All You Need", 2017, section 5.3) step s has
  // sqrt(W / (s + 1)) of the highest rate. W is at least 1, the factor at least min_ratio.
  double at(std::int64_t step) const;
  std::int64_t warmup_steps() const { return warmup_steps_; }

 private:
  double at_position(std::int64_t position) const;  // after the warm-up

  double highest_;
  ScheduleSection schedule_;
  SchedulePosition from_;
  std::int64_t total_steps_;   // of the schedule: as if all steps had the present batches
  std::int64_t warmup_steps_;  // in real steps
  std::int64_t warmup_end_;    // its position
  std::int64_t decay_steps_;
};

}  // namespace packtrain
