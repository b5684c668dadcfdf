// Times each optimizer step by the device's clock. The host is a step ahead of a GPU and may see
// the end of a step late.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "framework/device/timed_event.h"

namespace packtrain {

// Phases of a step. kBetween: the device waits for the host.
enum class StepPhase { kBetween, kForward, kBackward, kOptimizer };

struct StepTimes {
  double total_s = 0;
  double forward_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;
};

class StepTimer {
 public:
  // `compute`: the stream on which steps end. Both must outlive this object.
  StepTimer(const Device& device, Stream& compute) : device_(device), compute_(compute) {}

  void restart();               // the next step begins now; none is in flight
  void enter(StepPhase phase);  // work queued from now on belongs to this phase
  void end_step();              // work queued so far belongs to the step
  StepTimes take_step();        // the oldest step that was not taken; waits for its end

 private:
  struct Mark {
    std::unique_ptr<TimedEvent> event;
    StepPhase begins = StepPhase::kBetween;
    bool ends_step = false;
  };

  void mark(StepPhase begins, bool ends_step);
  void drop_oldest();

  const Device& device_;
  Stream& compute_;
  std::deque<Mark> marks_;  // the first: begin of the oldest step
  std::vector<std::unique_ptr<TimedEvent>> unused_;
};

}  // namespace packtrain
