#include "framework/metrics/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "framework/metrics/step_line.h"

namespace packtrain {
namespace {

constexpr double kLogIntervalS = 1.0;
constexpr double kTerminalIntervalS = 0.1;
constexpr double kAverageWeight = 0.1;  // of the newest step
constexpr std::size_t kBarWidth = 20;
constexpr std::string_view kClearLine = "\r\x1b[K";

std::string bar(std::int64_t step, std::int64_t total_steps) {
  const double fraction =
      std::clamp(static_cast<double>(step) / static_cast<double>(total_steps), 0.0, 1.0);
  const auto num_done = static_cast<std::size_t>(fraction * kBarWidth);
  return fmt::format("[{:#<{}}{:.<{}}] ", "", num_done, "", kBarWidth - num_done);
}

}  // namespace

ProgressOutput ProgressOutput::standard_error() {
  ProgressOutput output;
  const char* term = std::getenv("TERM");
  output.is_terminal =
      isatty(STDERR_FILENO) == 1 && term != nullptr && std::string_view(term) != "dumb";
  winsize size{};
  if (output.is_terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    output.width = size.ws_col;
  }
  // A lost progress line is no reason to stop a run.
  output.write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); };
  return output;
}

Progress::Progress(std::int64_t total_steps, ProgressOutput output)
    : total_steps_(total_steps), output_(std::move(output)) {}

Progress::~Progress() {
  if (held_back_) write_lasting(*held_back_);
}

void Progress::average(double step_time_s) {
  ++num_steps_;
  // The first step warms up caches and libraries; the second one replaces it.
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
  if (due) rewrite(record, line);
  held_back_ = std::move(line);
}

void Progress::evaluation(const EvaluationRecord& record) {
  if (held_back_) write_lasting(*held_back_);
  write_lasting(format_evaluation_line(record));
}

void Progress::write_lasting(std::string_view line) {
  output_.write(fmt::format("{}{}\n", output_.is_terminal ? kClearLine : "", line));
  held_back_.reset();
}

void Progress::rewrite(const StepRecord& record, std::string_view line) {
  std::string text = total_steps_ > 0 ? bar(record.step, total_steps_) : "";
  text += line;
  // A line that wrapped could not be rewritten.
  text.resize(std::min(text.size(), output_.width - 1));
  output_.write(fmt::format("{}{}", kClearLine, text));
}

}  // namespace packtrain
