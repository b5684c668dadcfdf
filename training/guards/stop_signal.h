// Handles requests to stop: SIGUSR1, SIGTERM and SIGINT ask for a checkpoint at the end of the
// step.
#pragma once

namespace packtrain {

// While the object exists, the three signals only set a flag. A SIGTERM or SIGINT after any of them
// has its default effect and ends the process. SIGUSR1 may be repeated. At most one object exists.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
};

}  // namespace packtrain
