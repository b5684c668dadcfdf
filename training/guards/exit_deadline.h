// Limits the time in which a failing rank must exit. Aborting a communicator may hang for ever
// (NVIDIA/nccl issues 549, 1013, 1777), and the other ranks wait for this one.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "framework/core/deadline.h"

namespace packtrain {

class ExitDeadline {
 public:
  explicit ExitDeadline(std::chrono::milliseconds limit = std::chrono::seconds(10))
      : limit_(limit) {}

  // Starts the limit, which ends when this object is destroyed. When it expires, the process prints
  // `text` and exits with `exit_code` immediately, without calling any library. Call it once.
  void arm(const std::string& text, int exit_code);

 private:
  std::chrono::milliseconds limit_;
  std::optional<Deadline> deadline_;
};

}  // namespace packtrain
