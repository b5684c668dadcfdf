#include "training/guards/communicator_watch.h"

#include <fmt/format.h>

#include <utility>

#include "framework/core/error.h"
#include "training/guards/fast_exit.h"

namespace packtrain {

CommunicatorWatch::CommunicatorWatch(std::function<void()> poll, int rank,
                                     std::chrono::milliseconds interval)
    : poll_(std::move(poll)), rank_(rank), thread_([this, interval] { watch(interval); }) {}

CommunicatorWatch::~CommunicatorWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void CommunicatorWatch::watch(std::chrono::milliseconds interval) {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval, [this] { return over_; })) {
    lock.unlock();
    try {
      poll_();
    } catch (const Error& error) {
      fast_exit(fmt::format("error: rank {}: {}\n  {}\n", rank_, error.message(), error.advice()),
                error.category());
    }
    lock.lock();
  }
}

}  // namespace packtrain
