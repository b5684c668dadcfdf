#include "framework/metrics/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "framework/core/logging.h"
#include "framework/core/terminal.h"
#include "framework/metrics/step_line.h"

namespace packtrain {
namespace {

constexpr double kLogIntervalS = 1.0;
constexpr double kTerminalIntervalS = 0.1;
constexpr double kAverageWeight = 0.1;  // weight of the newest step
constexpr std::size_t kBarWidth = 20;
constexpr std::size_t kWidthForBar = 80;  // narrower terminals show the line without a bar

std::string bar(std::int64_t step, std::int64_t total_steps) {
  const double fraction =
      std::clamp(static_cast<double>(step) / static_cast<double>(total_steps), 0.0, 1.0);
  const auto num_done = static_cast<std::size_t>(fraction * kBarWidth);
  return fmt::format("[{:#<{}}{:.<{}}] ", "", num_done, "", kBarWidth - num_done);
}

}  // namespace

ProgressOutput ProgressOutput::standard_error() {
  ProgressOutput output;
  output.is_terminal = terminal_width() > 0;
  output.width = terminal_width;
  // A failed progress line must not stop a run.
  output.write = write_between_log_lines;
  return output;
}

Progress::Progress(std::int64_t total_steps, ProgressOutput output)
    : total_steps_(total_steps), output_(std::move(output)) {}

Progress::~Progress() {
  if (held_back_) write_lasting(*held_back_);
}

void Progress::average(double step_time_s) {
  ++num_steps_;
  // The first step includes warm-up, so the second one replaces its time.
  average_step_time_s_ =
      num_steps_ <= 2 ? step_time_s
                      : (1 - kAverageWeight) * average_step_time_s_ + kAverageWeight * step_time_s;
}

double Progress::seconds_left(std::int64_t step) const {
  return average_step_time_s_ * static_cast<double>(std::max<std::int64_t>(total_steps_ - step, 0));
}

bool Progress::is_due(double now_s) const {
  const double interval_s = output_.is_terminal ? kTerminalIntervalS : kLogIntervalS;
  return num_steps_ == 1 || now_s - written_at_s_ >= interval_s;
}

void Progress::step(const StepRecord& record, double now_s) {
  average(record.step_time_s);
  std::string line = format_step_line(record, total_steps_, seconds_left(record.step));
  if (record.step == total_steps_ || !std::isfinite(record.loss)) {
    write_lasting(line);
    return;
  }
  const bool due = is_due(now_s);
  if (due) written_at_s_ = now_s;
  if (due && !output_.is_terminal) {
    write_lasting(line);
    return;
  }
  if (due) rewrite(record);
  held_back_ = std::move(line);
}

void Progress::evaluation(const EvaluationRecord& record) {
  if (held_back_) write_lasting(*held_back_);
  validation_loss_ = record.loss;
  if (record.all_sets.empty()) return write_lasting(format_evaluation_line(record));
  for (const EvaluationRecord& set : record.all_sets) write_lasting(format_evaluation_line(set));
}

void Progress::command(const CommandRecord& record) {
  if (held_back_) write_lasting(*held_back_);
  write_lasting(format_command_line(record));
}

void Progress::write_lasting(std::string_view line) {
  output_.write(fmt::format("{}{}\n", output_.is_terminal ? kClearLine : "", line));
  held_back_.reset();
}

void Progress::rewrite(const StepRecord& record) {
  // A wrapped line could not be redrawn.
  const std::size_t width = std::max<std::size_t>(output_.width(), 2) - 1;
  std::string text =
      total_steps_ > 0 && width >= kWidthForBar ? bar(record.step, total_steps_) : "";
  text += format_step_line(record, total_steps_, seconds_left(record.step), width - text.size(),
                           validation_loss_);
  text.resize(std::min(text.size(), width));
  output_.write(fmt::format("{}{}", kClearLine, text));
}

}  // namespace packtrain
