// ReadAhead: creates items in order on its own thread, ahead of the consumer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace packtrain {

template <typename T>
class ReadAhead {
 public:
  // Creates items first .. end - 1 with `make`, which only the thread calls, in order. At most
  // `depth` (>= 1) items wait to be taken.
  ReadAhead(std::int64_t first, std::int64_t end, std::size_t depth,
            std::function<T(std::int64_t)> make)
      : depth_(depth), make_(std::move(make)), thread_([this, first, end] { run(first, end); }) {}

  // Drops items that were not taken. Waits for the item in progress.
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Waits for the next item and returns it. An exception of `make` is thrown after the items before
  // it, and again by every later call. Call it at most end - first times.
  T take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || failure_ != nullptr; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    T item = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return item;
  }

 private:
  void run(std::int64_t first, std::int64_t end) {
    try {
      for (std::int64_t index = first; index < end; ++index) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return stopped_ || ready_.size() < depth_; });
          if (stopped_) return;
        }
        T item = make_(index);
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(item));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  std::size_t depth_;
  std::function<T(std::int64_t)> make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> ready_;
  std::exception_ptr failure_;
  bool stopped_ = false;
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace packtrain
