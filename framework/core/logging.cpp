#include "framework/core/logging.h"

#include <fmt/format.h>
#include <spdlog/details/console_globals.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/terminal.h"

namespace packtrain {
namespace {

struct LogPosition {
  std::mutex mutex;
  std::int64_t step = 0;
  std::string phase = "start";
};

LogPosition& log_position() {
  static LogPosition position;
  return position;
}

// The `%*` flag of the pattern: step and phase.
class PositionFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&,
              spdlog::memory_buf_t& line) override {
    LogPosition& position = log_position();
    const std::lock_guard lock(position.mutex);
    fmt::format_to(std::back_inserter(line), "step {} {}", position.step, position.phase);
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PositionFlag>();
  }
};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
  }
  return spdlog::level::warn;
}

std::unique_ptr<spdlog::formatter> line_formatter(const std::string& pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PositionFlag>('*').set_pattern(pattern);
  return formatter;
}

std::shared_ptr<spdlog::sinks::sink> open_log_file(const std::string& log_file) {
  constexpr const char* kAdvice = "Choose a run.output folder that can be written.";
  // spdlog creates the folder as well, but does not report why it failed.
  std::error_code error;
  const auto folder = std::filesystem::path(log_file).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(
        ErrorCategory::kConfig,
        fmt::format("cannot make the folder of the log file {}: {}", log_file, error.message()),
        kAdvice);
  }
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(log_file);
    sink->set_level(spdlog::level::debug);
    return sink;
  } catch (const spdlog::spdlog_ex& failure) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("cannot open the log file {}: {}", log_file, failure.what()), kAdvice);
  }
}

}  // namespace

void start_logging(int rank, int num_ranks, const std::string& log_file) {
  auto terminal = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  terminal->set_level(rank == 0 ? spdlog::level::info : spdlog::level::warn);
  std::vector<spdlog::sink_ptr> sinks = {std::move(terminal)};
  if (!log_file.empty()) sinks.push_back(open_log_file(log_file));

  auto logger = std::make_shared<spdlog::logger>("packtrain", sinks.begin(), sinks.end());
  logger->set_level(spdlog::level::debug);
  logger->flush_on(spdlog::level::info);  // so that a killed run keeps its last lines
  const std::string pattern =
      fmt::format("%Y-%m-%d %H:%M:%S.%e rank {}/{} %* %^%l%$: %v", rank, num_ranks);
  logger->set_formatter(line_formatter(pattern));
  // Clears a progress line of this rank or of another one before each log line.
  if (terminal_width() > 0) sinks.front()->set_formatter(line_formatter(kClearLine + pattern));
  spdlog::set_default_logger(std::move(logger));
}

void set_log_position(std::int64_t step, std::string_view phase) {
  LogPosition& position = log_position();
  const std::lock_guard lock(position.mutex);
  position.step = step;
  position.phase = phase;
}

void log_text(LogLevel level, std::string_view text) {
  spdlog::default_logger_raw()->log(spdlog_level(level), text);
}

void flush_log() {
  spdlog::default_logger_raw()->flush();
}

// spdlog writes a coloured line in several calls while it holds this mutex.
void write_between_log_lines(std::string_view text) {
  const std::lock_guard lock(spdlog::details::console_mutex::mutex());
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace packtrain
