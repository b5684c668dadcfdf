// run.evaluate_command: a program that measures an exported checkpoint.
#pragma once

#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "training/saving/command.h"
#include "training/saving/step_worker.h"

namespace packtrain {

// The numbers that a command printed, or why there are none.
struct PrintedNumbers {
  std::vector<std::pair<std::string, double>> numbers;
  std::string failure = {};              // "" unless there are no numbers
  std::vector<std::string> others = {};  // names of values that are no finite numbers
};
// Reads the last line of `output` that is a JSON object.
PrintedNumbers read_printed_numbers(const std::string& output);

class EvaluateCommand {
 public:
  static constexpr const char* kKey = "run.evaluate_command";

  // `config` must outlive the object.
  explicit EvaluateCommand(const Config& config);

  // Exports the checkpoint of this step to run.output/evaluate_command, and runs the command on it.
  // While one is in work, only the newest of further steps is kept. A failure is a warning.
  void add(std::int64_t step);
  std::vector<CommandRecord> take_records();  // since the last call
  StepWorker& worker() { return worker_; }

 private:
  void work(std::int64_t step, const std::stop_token& stops);
  CommandEnd evaluate(std::int64_t step, const std::stop_token& stops);
  CommandStart export_start(const std::string& checkpoint, const std::string& folder) const;

  const Config& config_;
  std::mutex mutex_;
  std::vector<CommandRecord> records_;
  StepWorker worker_;  // last: its thread uses all of the above
};

}  // namespace packtrain
