#include "training/steps/step_timer.h"

#include <utility>

namespace packtrain {
namespace {

void add(StepPhase phase, double seconds, StepTimes& times) {
  switch (phase) {
    case StepPhase::kForward:
      times.forward_s += seconds;
      break;
    case StepPhase::kBackward:
      times.backward_s += seconds;
      break;
    case StepPhase::kOptimizer:
      times.optimizer_s += seconds;
      break;
    case StepPhase::kBetween:
      break;
  }
  times.total_s += seconds;
}

}  // namespace

void StepTimer::restart() {
  while (!marks_.empty()) drop_oldest();
  mark(StepPhase::kBetween, /*ends_step=*/false);
}

void StepTimer::enter(StepPhase phase) {
  if (!marks_.empty() && marks_.back().begins == phase) return;
  mark(phase, /*ends_step=*/false);
}

void StepTimer::end_step() {
  mark(StepPhase::kBetween, /*ends_step=*/true);
}

StepTimes StepTimer::take_step() {
  StepTimes times;
  bool over = false;
  while (!over) {
    add(marks_.at(0).begins, marks_.at(1).event->seconds_since(*marks_.at(0).event), times);
    over = marks_.at(1).ends_step;
    drop_oldest();
  }
  return times;
}

void StepTimer::drop_oldest() {
  unused_.push_back(std::move(marks_.front().event));
  marks_.pop_front();
}

void StepTimer::mark(StepPhase begins, bool ends_step) {
  std::unique_ptr<TimedEvent> event;
  if (unused_.empty()) {
    event = make_timed_event(device_);
  } else {
    event = std::move(unused_.back());
    unused_.pop_back();
  }
  compute_.record(*event);
  marks_.push_back({std::move(event), begins, ends_step});
}

}  // namespace packtrain
