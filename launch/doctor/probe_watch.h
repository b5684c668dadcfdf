// Ends a doctor whose checks hang.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "parallel/world.h"

namespace packtrain {

// Seconds that all checks of so many ranks may take where no limit is given: a minute, and 50 ms a
// rank. launch/tools/packtrain_launch/restarts.py waits twice as long.
double probe_limit_s(int num_ranks);

// Ends the process with code 72, and so the job, when doctor takes longer than `limit_s`: says
// which check this rank was at.
class ProbeWatch {
 public:
  ProbeWatch(const World& world, double limit_s);
  ~ProbeWatch();
  ProbeWatch(const ProbeWatch&) = delete;
  ProbeWatch& operator=(const ProbeWatch&) = delete;

  void begin(const std::string& check);

 private:
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::string check_;
  std::thread thread_;
};

}  // namespace packtrain
