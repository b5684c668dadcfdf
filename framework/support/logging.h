// The log of a run: every line carries time, rank, step and phase, so that lines of many ranks can
// be laid beside each other. spdlog stands behind it, out of sight: it takes 5 s to compile.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace packtrain {

// Rank 0 writes info and above to standard error, other ranks warnings and above; every rank
// writes everything (debug and above) to `log_file`, appending, when one is given: its folder is
// made. Colour only on a terminal. May be called again, replacing the earlier set-up.
// Throws Error(kConfig) when the file cannot be opened.
void start_logging(int rank, int num_ranks, const std::string& log_file);

// Where the run is from now on: the optimizer step and a word for what it does ("forward",
// "checkpoint"). Shown in each later line. Any thread.
void set_log_position(std::int64_t step, std::string_view phase);

enum class LogLevel { kDebug, kInfo, kWarning };

// One line; any thread, also before start_logging().
void log_text(LogLevel level, std::string_view text);
void flush_log();

// Writes to standard error as it is, but never into the middle of a log line. Any thread.
void write_between_log_lines(std::string_view text);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  log_text(level, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kDebug, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kInfo, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::kWarning, format, std::forward<Args>(args)...);
}

}  // namespace packtrain
