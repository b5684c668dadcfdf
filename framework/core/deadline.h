// Calls a function when something takes too long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace packtrain {

class Deadline {
 public:
  // Calls `expired` once, on a thread of its own, when this object lives longer than `limit`.
  // `expired` usually ends the process. An exception from it ends the process too.
  Deadline(std::chrono::duration<double> limit, std::function<void()> expired);
  ~Deadline();  // waits for `expired` when it has begun
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace packtrain
