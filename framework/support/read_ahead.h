// ReadAhead: items made in order on a thread of its own, some ahead of who takes them.
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
  // Makes items first .. end - 1 by `make`, called on the thread alone, one after the other; at
  // most `depth` (>= 1) wait to be taken.
  ReadAhead(std::int64_t first, std::int64_t end, std::size_t depth,
            std::function<T(std::int64_t)> make)
      : depth_(depth), make_(std::move(make)), thread_([this, first, end] { run(first, end); }) {}

  // Drops what was not taken; waits for the item that is being made.
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

  // The next item; waits for it. An exception of `make` surfaces here, after the items before it,
  // and again at every later call. At most end - first calls.
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
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace packtrain
