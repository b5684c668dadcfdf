// Learning rate by step: linear warm-up, then constant or one of several decays.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/config/config.h"

namespace packtrain {

// Of a run of `total_steps`; may be more than these.
std::int64_t num_warmup_steps(const ScheduleSection& schedule, std::int64_t total_steps);
// Of warmup_stable_decay: the steps at the run's end in which the rate falls; may be more than the
// run has behind its warm-up where schedule.decay_steps says so.
std::int64_t num_decay_steps(const ScheduleSection& schedule, std::int64_t total_steps);

// Whether warm-up and decay are no longer than the run.
bool schedule_fits(const ScheduleSection& schedule, std::int64_t total_steps);

// Where a resumed run with other batches stands in its schedule: its optimizer step `step` (from 0)
// stands where step `position` of a run stands that had these batches from its beginning.
struct SchedulePosition {
  std::int64_t step = 0;
  std::int64_t position = 0;

  friend bool operator==(const SchedulePosition&, const SchedulePosition&) = default;
};

// Steps (from 0, ascending) of a run at which its rate begins, turns or ends.
std::vector<std::int64_t> schedule_boundaries(const ScheduleSection& schedule,
                                              std::int64_t total_steps);

class LearningRate {
 public:
  // Throws Error(kConfig) when the warm-up, or the warm-up and the decay of warmup_stable_decay,
  // are longer than the run. `total_steps`: as they are counted, up to the run's last one.
  LearningRate(double highest, const ScheduleSection& schedule, std::int64_t total_steps,
               SchedulePosition from = {});

  // Of optimizer step `step`, from 0. Warm-up step s of W has (s + 1) / W of the highest rate, so
  // that no step is lost at rate 0; the last step of a decay has min_ratio of it.
  // warmup_stable_decay (Hu et al., "MiniCPM", arXiv 2404.06395, section 4.2): the highest rate
  // until the last D steps; step d of these has min_ratio + (1 - min_ratio) f((d + 1) / D) of it,
  // with f(x) = 1 - x, (1 + cos(pi x)) / 2, or 1 - sqrt(x) (Haegele et al., arXiv 2405.18392).
  // inverse_sqrt (Vaswani et al., "Attention Is All You Need", 2017, section 5.3): step s has
  // sqrt(W / (s + 1)) of it, W at least 1, but not below min_ratio.
  double at(std::int64_t step) const;
  std::int64_t warmup_steps() const { return warmup_steps_; }

 private:
  double at_position(std::int64_t position) const;  // behind the warm-up

  double highest_;
  ScheduleSection schedule_;
  SchedulePosition from_;
  std::int64_t total_steps_;   // of the schedule: as if all steps were the present ones
  std::int64_t warmup_steps_;  // in real steps
  std::int64_t warmup_end_;    // its position
  std::int64_t decay_steps_;
};

}  // namespace packtrain
