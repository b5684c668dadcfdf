// Ends a process whose run stands still. A thread of its own, which calls neither the device, a
// communicator nor a file system, so that nothing that hangs can hold it up.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "framework/config/config.h"
#include "framework/training/guards/file_thread.h"
#include "parallel/world.h"

namespace packtrain {

enum class RunPhase { kStart, kStep, kCheckpoint };  // the last: a save or an evaluation

class Watchdog {
 public:
  // In `run_folder`/progress each rank leaves a sign of life every second, from which the others
  // can tell which one is missing; nowhere with "". Where files hang, or cannot be written, only
  // names are missing.
  Watchdog(const GuardSection& limits, const std::string& run_folder, World& world);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // The phase begins now: its limit counts from here. `step`: from 1. When it is over and enter()
  // was not called again, the process prints where it stands, its latest collectives and which
  // ranks are behind, and ends with exit code 72.
  void enter(RunPhase phase, std::int64_t step);

  // From half of the phase's limit on, what is overdue, so that others may look before the process
  // ends; "" before that. From any thread.
  std::string overdue() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Position {
    RunPhase phase = RunPhase::kStart;
    std::int64_t step = 0;
    Clock::time_point begin = Clock::now();
  };
  struct Signs;  // what the thread that writes and reads them owns

  void watch();
  [[noreturn]] void end(const Position& at);
  std::string missing_ranks();

  std::array<double, 3> limits_s_;  // by phase; 0: none
  int rank_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Position position_;
  bool over_ = false;
  std::shared_ptr<Signs> heartbeats_;
  std::unique_ptr<FileThread> heartbeat_thread_;  // or none
  std::thread thread_;                            // last: uses all of the above
};

}  // namespace packtrain
