#include "framework/core/deadline.h"

#include <utility>

namespace packtrain {

Deadline::Deadline(std::chrono::duration<double> limit, std::function<void()> expired) {
  thread_ = std::thread([this, limit, expired = std::move(expired)] {
    std::unique_lock lock(mutex_);
    if (over_changed_.wait_for(lock, limit, [this] { return over_; })) return;
    lock.unlock();
    expired();
  });
}

Deadline::~Deadline() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  over_changed_.notify_one();
  thread_.join();
}

}  // namespace packtrain
