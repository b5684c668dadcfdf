// For work that lasts until another thread waits for it, however slow the machine is.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "framework/core/file.h"

namespace packtrain::test {

class WaitingThread {
 public:
  // On the thread itself: the next thing that it does is to wait.
  void begins_to_wait() { id_ = gettid(); }

  // On another thread: returns when it waits.
  void await() const {
    while (id_ == 0 || !is_asleep()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  bool is_asleep() const {
    const std::string text =
        read_text("/proc/self/task/" + std::to_string(id_) + "/stat", ErrorCategory::kInternal);
    const std::size_t name_end = text.rfind(')');  // the state follows
    return name_end != std::string::npos && text.compare(name_end, 3, ") S") == 0;
  }

  std::atomic<pid_t> id_ = 0;
};

}  // namespace packtrain::test
