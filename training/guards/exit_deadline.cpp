#include "training/guards/exit_deadline.h"

#include <unistd.h>

#include "training/guards/fast_exit.h"

namespace packtrain {

ExitDeadline::~ExitDeadline() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ExitDeadline::arm(const std::string& text, int exit_code) {
  thread_ = std::thread([this, text, exit_code] { wait(text, exit_code); });
}

void ExitDeadline::wait(const std::string& text, int exit_code) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, limit_, [this] { return over_; })) return;
  print_unbuffered("error: " + text + "\nerror: giving up what it held hangs: ended at once\n");
  ::_exit(exit_code);
}

}  // namespace packtrain
