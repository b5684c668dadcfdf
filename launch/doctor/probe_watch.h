// Ends a doctor process whose checks hang.
#pragma once

#include <mutex>
#include <string>

#include "framework/core/deadline.h"
#include "parallel/communicators/world.h"

namespace packtrain {

// The default limit in seconds for all checks of `num_ranks` ranks: a minute, and 50 ms a rank.
// launch/python/packtrain_launch/restarts.py waits twice as long.
double probe_limit_s(int num_ranks);

// Ends the process, and so the job, with code 72 when doctor takes longer than `limit_s`. The
// message names the check that this rank was running.
class ProbeWatch {
 public:
  ProbeWatch(const World& world, double limit_s);

  void begin(const std::string& check);

 private:
  std::mutex mutex_;
  std::string check_;
  Deadline deadline_;  // last: uses all of the above
};

}  // namespace packtrain
