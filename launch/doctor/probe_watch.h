// Ends a doctor process whose checks hang.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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
