// Ends a process whose communicators report a fault of the network or of another rank. Work already
// queued on the device would otherwise wait in a kernel until the watchdog's limit.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace packtrain {

class CommunicatorWatch {
 public:
  // `poll` throws an Error when there is a fault (ShardedModel::poll_errors). A thread calls it
  // every `interval` until the object is destroyed. On a fault the process prints the error as
  // `rank`'s and exits with the error's exit code.
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
