// The log of a run. Each line has time, rank, step and phase, so that lines of several ranks can be
// compared. This header does not include spdlog, which takes 5 s to compile.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace packtrain {

// Rank 0 writes info and above to standard error, other ranks warnings and above. With a
// `log_file`, every rank appends all levels to it; its folder is created. Colour is used only on a
// terminal. A later call replaces the earlier configuration. Throws Error(kConfig) when the file
// cannot be opened.
void start_logging(int rank, int num_ranks, const std::string& log_file);

// Sets the optimizer step and the phase ("forward", "checkpoint") that later lines show.
// Thread-safe.
void set_log_position(std::int64_t step, std::string_view phase);

enum class LogLevel { kDebug, kInfo, kWarning };

// Writes one line. Thread-safe. It works before start_logging() as well.
void log_text(LogLevel level, std::string_view text);
void flush_log();

// Writes text to standard error unchanged, but never inside a log line. Thread-safe.
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
