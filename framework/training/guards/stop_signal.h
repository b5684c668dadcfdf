// Asked to stop: SIGUSR1, SIGTERM and SIGINT ask for a checkpoint at the end of the step.
#pragma once

namespace packtrain {

// While it lives the three signals only raise a flag. A SIGTERM or SIGINT after any of them ends
// the process at once, as it would have without us; SIGUSR1 may be repeated. At most one exists.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
};

}  // namespace packtrain
