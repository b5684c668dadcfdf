// metrics.report_to: `packtrain follow` as a child process that sends the run's metrics on.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/core/process.h"

namespace packtrain {

// Throws Error(kConfig) when a program that metrics.report_to needs is missing. Takes the seconds
// that Python needs to import it.
void check_report_to(const Config& config);

// Of rank 0.
class Follower {
 public:
  // Starts it, if metrics.report_to names anything. What it prints is in log/follow.log. A failure
  // is a warning. `config` must outlive the object.
  explicit Follower(const Config& config);
  ~Follower();  // finishes it within seconds, where finish() was not called
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  void look();  // warns, once, when it has ended
  // Lets it send what metrics.jsonl has, and ends it. It is killed after `limit`.
  void finish(std::chrono::duration<double> limit);

 private:
  void warn(const std::string& what);

  const Config& config_;
  std::unique_ptr<Process> process_;  // or none
};

}  // namespace packtrain
