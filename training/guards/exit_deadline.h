// Limits the time in which a failing rank must exit. Aborting a communicator may hang for ever
// (NVIDIA/nccl issues 549, 1013, 1777), and the other ranks wait for this one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace packtrain {

class ExitDeadline {
 public:
  explicit ExitDeadline(std::chrono::milliseconds limit = std::chrono::seconds(10))
      : limit_(limit) {}
  ~ExitDeadline();  // ends the deadline
  ExitDeadline(const ExitDeadline&) = delete;
  ExitDeadline& operator=(const ExitDeadline&) = delete;

  // Starts the limit, which ends when this object is destroyed. When it expires, the process prints
  // `text` and exits with `exit_code` immediately, without calling any library. Call it once.
  void arm(const std::string& text, int exit_code);

 private:
  void wait(const std::string& text, int exit_code);

  std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace packtrain
