// A failing rank ends, whatever its libraries do: aborting a communicator may hang for ever
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
  ~ExitDeadline();  // what was in danger of hanging is over
  ExitDeadline(const ExitDeadline&) = delete;
  ExitDeadline& operator=(const ExitDeadline&) = delete;

  // From now on the process has the limit until this object goes, else it prints `text` and ends
  // with `exit_code` at once, without another word to any library. Once.
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
