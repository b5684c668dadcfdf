// How long each optimizer step took, by the device's clock: the host is a step ahead of a GPU, and
// what it sees of a step's end may be late.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "framework/device/timed_event.h"

namespace packtrain {

// What a step's time goes to; kBetween: waiting for the host, which is busy with something else.
enum class StepPhase { kBetween, kForward, kBackward, kOptimizer };

struct StepTimes {
  double total_s = 0;
  double forward_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;
};

class StepTimer {
 public:
  // `compute`: the stream that ends the steps. Both must outlive this.
  StepTimer(const Device& device, Stream& compute) : device_(device), compute_(compute) {}

  void restart();               // the next step begins now; none is in flight
  void enter(StepPhase phase);  // what the stream is given from now on is of that phase
  void end_step();              // what the stream was given so far is the step's
  StepTimes take_step();        // of the oldest step that was not taken; waits for its end

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
  std::deque<Mark> marks_;  // the first: where the oldest step began
  std::vector<std::unique_ptr<TimedEvent>> unused_;
};

}  // namespace packtrain
