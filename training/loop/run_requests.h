// Requests from outside to stop a run or to save it: signals, and a file in the run's folder. They
// reach all ranks with the outcome of a step.
#pragma once

#include <optional>
#include <string>

#include "training/guards/stop_signal.h"
#include "training/steps/step_outcome.h"

namespace packtrain {

class RunRequests {
 public:
  RunRequests(const std::string& run_folder, int rank);

  // This rank's requests to all ranks. A request to save is returned once.
  StepRequests poll();
  bool stop_requested() const { return signal_ && signal_->requested(); }  // on this rank
  // Signals have their default effect from here on.
  void restore_signals() { signal_.reset(); }

  // Keeps the requests of any rank that came with a step's outcome. Ranks repeat a request to stop.
  // After a discarded step only the request to save is kept.
  void agree(const StepRequests& requests, bool discarded);
  bool stop_agreed() const { return stop_agreed_; }
  bool save_agreed() const { return save_agreed_; }
  void clear_save() { save_agreed_ = false; }

 private:
  std::string save_file_;
  int rank_;
  std::optional<StopSignal> signal_;
  double last_look_s_ = 0;  // for the file
  bool stop_agreed_ = false;
  bool save_agreed_ = false;
};

}  // namespace packtrain
