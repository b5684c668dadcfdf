// The commands that run on committed checkpoints while the run trains: checkpoint.after_save and
// run.evaluate_command.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "training/saving/after_save.h"
#include "training/saving/evaluate_command.h"

namespace packtrain {

// Of rank 0. Commands that still run are ended when the object is destroyed.
class CheckpointCommands {
 public:
  // `config` must outlive the object. `resumed_step`: of the checkpoint that the run resumed from,
  // else -1. Commands that have not succeeded for it start again, if it is one of this run.
  CheckpointCommands(const Config& config, std::int64_t resumed_step);
  ~CheckpointCommands();
  CheckpointCommands(const CheckpointCommands&) = delete;
  CheckpointCommands& operator=(const CheckpointCommands&) = delete;

  static bool are_wanted(const Config& config);
  // Throws Error(kConfig) when a program is missing on this machine.
  static void check_programs(const Config& config);

  // A checkpoint of this step is complete. A second call for the same step does nothing.
  void add(std::int64_t step);
  std::vector<std::int64_t> steps_in_use() const;  // checkpoints that must stay
  std::vector<CommandRecord> take_records();       // since the last call
  // Waits until nothing is left. False when that takes longer than `limit`.
  bool wait(std::chrono::duration<double> limit);
  // Ends the evaluation in work, and starts no other.
  void stop_evaluations();
  void stop();

 private:
  std::int64_t newest_ = -1;                   // step of the latest add()
  std::unique_ptr<AfterSave> after_save_;      // or none
  std::unique_ptr<EvaluateCommand> evaluate_;  // or none
};

}  // namespace packtrain
