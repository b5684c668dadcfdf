// Ends a process whose run makes no progress. Its thread calls no device, communicator or file
// system, so nothing that hangs can block it.
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
#include "parallel/communicators/world.h"
#include "training/guards/file_thread.h"

namespace packtrain {

enum class RunPhase { kStart, kStep, kCheckpoint };  // the last: a save or an evaluation

class Watchdog {
 public:
  // Each rank writes a heartbeat file in `run_folder`/progress every second; "" writes none. The
  // other ranks find missing ranks by it. When files hang or cannot be written, the report lacks
  // their names.
  Watchdog(const GuardSection& limits, const std::string& run_folder, World& world);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // The phase begins now and its limit starts. `step` counts from 1. If enter() is not called again
  // before the limit, the process prints its position, its latest collectives and the ranks that
  // are late. It then exits with code 72. Of many ranks only some name the late ones
  // (reads_all_heartbeats).
  void enter(RunPhase phase, std::int64_t step);

  // A description of what is overdue, from half of the phase's limit on, so that it can be examined
  // before the process ends. "" before that. Safe from any thread.
  std::string overdue() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Position {
    RunPhase phase = RunPhase::kStart;
    std::int64_t step = 0;
    Clock::time_point begin = Clock::now();
  };
  struct Heartbeats;  // data of the thread that writes and reads heartbeats

  void watch();
  [[noreturn]] void end(const Position& at);
  std::string missing_ranks();

  std::array<double, 3> limits_s_;  // by phase; 0: none
  int rank_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Position position_;
  bool over_ = false;
  std::shared_ptr<Heartbeats> heartbeats_;
  std::unique_ptr<FileThread> heartbeat_thread_;  // or none
  std::thread thread_;                            // last: uses all of the above
};

}  // namespace packtrain
