// Starts a command of the configuration on a checkpoint, and keeps what it prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace packtrain {

struct CommandStart {
  std::vector<std::string> words;  // the program and its arguments
  std::vector<std::pair<std::string, std::string>> variables = {};
  // File to which standard error is appended, and standard output with `keeps_output` false.
  std::string log;
  bool keeps_output = false;  // returns standard output instead, up to kMaxOutputBytes of its end
  bool low_priority = false;
  double timeout_s = 0;
};

inline constexpr std::int64_t kMaxOutputBytes = std::int64_t{1} << 20U;

struct CommandEnd {
  bool succeeded = false;
  // Why it failed: "exit code 3: no such bucket", with the last line that it wrote to the log.
  std::string failure = {};
  std::string output = {};
};

// Waits for the end of the command. It is ended after the timeout, and when a stop is requested:
// SIGTERM, and SIGKILL 3 s later. Throws Error(kInternal) when the log cannot be written.
CommandEnd run_command(const CommandStart& start, const std::stop_token& stops);

// The words of the configuration with the run's values in the place of `{step}`, `{run}` (its
// name), and `{NAME}`, which is `folder`. Other braces stay. Where no word has `{NAME}`, the folder
// is added as the last word. The folder becomes absolute.
std::vector<std::string> command_words(const std::vector<std::string>& words,
                                       const std::string& run_folder, std::int64_t step,
                                       const std::string& name, const std::string& folder);

// Variables of every command: PACKTRAIN_RUN, PACKTRAIN_STEP and PACKTRAIN_CHECKPOINT, with absolute
// paths.
std::vector<std::pair<std::string, std::string>> command_variables(const std::string& run_folder,
                                                                   std::int64_t step,
                                                                   const std::string& checkpoint);

// True when `run_folder`/commands.jsonl says that the command succeeded for the step.
bool has_succeeded(const std::string& run_folder, const std::string& command, std::int64_t step);
// Appends how it ended there. A failure to write is a warning.
void note_command(const std::string& run_folder, const std::string& command, std::int64_t step,
                  const CommandEnd& end, double duration_s) noexcept;

}  // namespace packtrain
