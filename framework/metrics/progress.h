// The step line on stderr: occasional lines in a log, or a redrawn line with a bar on a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "framework/metrics/metrics.h"

namespace packtrain {

// Destination of progress.
struct ProgressOutput {
  bool is_terminal = false;
  std::function<std::size_t()> width = {};  // columns of a terminal, whose size can change
  std::function<void(std::string_view)> write = {};

  static ProgressOutput standard_error();
};

// In a log, a step's line is written when it is the first, the last, not finite, or a second after
// the previous line. On a terminal it replaces the previous line, at most ten times a second. An
// evaluation's line is always written, after that of its step.
class Progress {
 public:
  Progress(std::int64_t total_steps, ProgressOutput output);
  // Writes the latest step's line if it was held back, so that a run that stops early shows its
  // last step.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `now_s`: any monotonic clock.
  void step(const StepRecord& record, double now_s);
  void evaluation(const EvaluationRecord& record);
  void command(const CommandRecord& record);
  // Estimated with the exponential average of step times.
  double seconds_left(std::int64_t step) const;

 private:
  void average(double step_time_s);
  bool is_due(double now_s) const;
  void write_lasting(std::string_view line);
  void rewrite(const StepRecord& record);

  std::int64_t total_steps_;
  ProgressOutput output_;
  std::int64_t num_steps_ = 0;
  double average_step_time_s_ = 0;
  std::optional<double> validation_loss_;  // of the latest evaluation
  double written_at_s_ = 0;
  std::optional<std::string>
      held_back_;  // the latest step's line while it is not written permanently
};

}  // namespace packtrain
