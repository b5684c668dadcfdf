// Ends a process whose communicators have met a fault of the network or of a peer: the work given
// to the device would wait in a kernel until the watchdog's limit is over.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace packtrain {

class CommunicatorWatch {
 public:
  // `poll` throws an Error when there is a fault (ShardedModel::poll_errors); it is called every
  // `interval` on a thread of the watch's own until the watch is destroyed. The process then prints
  // the error as `rank`'s and ends with the error's exit code.
  CommunicatorWatch(std::function<void()> poll, int rank,
                    std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~CommunicatorWatch();
  CommunicatorWatch(const CommunicatorWatch&) = delete;
  CommunicatorWatch& operator=(const CommunicatorWatch&) = delete;

 private:
  void watch(std::chrono::milliseconds interval);

  std::function<void()> poll_;
  int rank_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace packtrain
