#include "training/saving/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/core/process.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLookEvery{100};
constexpr std::chrono::seconds kGrace{3};
constexpr std::size_t kMaxQuotedBytes = 300;  // of a line in a message

// An unnamed file for a child's standard output. A pipe would have to be read while it runs.
int open_unnamed_file() {
  const int opened =
      ::open(fs::temp_directory_path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (opened >= 0) return opened;
  // Some file systems have no O_TMPFILE.
  std::string name = (fs::temp_directory_path() / "packtrain-XXXXXX").string();
  const int made = ::mkostemp(name.data(), O_CLOEXEC);
  if (made < 0) fail_on(name, "mkostemp", errno, ErrorCategory::kInternal);
  ::unlink(name.c_str());
  return made;
}

// The bytes from `begin` to the end, the last kMaxOutputBytes of them at most.
std::string read_from(const Descriptor& file, std::int64_t begin) {
  const std::int64_t end = ::lseek(file.get(), 0, SEEK_END);
  std::int64_t at = std::max(begin, end - kMaxOutputBytes);
  std::string text;
  std::array<char, 4096> buffer{};
  while (at < end) {
    const ssize_t size = ::pread(file.get(), buffer.data(), buffer.size(), at);
    if (size <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(size));
    at += size;
  }
  return text;
}

// Without the newline and at most kMaxQuotedBytes; "" when there is none.
std::string last_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.remove_suffix(1);
  }
  const std::size_t newline = text.rfind('\n');
  if (newline != std::string_view::npos) text.remove_prefix(newline + 1);
  return std::string(text.substr(0, kMaxQuotedBytes));
}

// "" when it succeeded.
std::string run(Process& process, double timeout_s, const std::stop_token& stops) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    if (const auto end = process.wait(kLookEvery)) return end->succeeded() ? "" : end->describe();
    if (stops.stop_requested()) {
      process.end(kGrace);
      return "ended, because the run ends";
    }
    const std::chrono::duration<double> age = std::chrono::steady_clock::now() - begin;
    if (age.count() > timeout_s) {
      process.end(kGrace);
      return fmt::format("ended after {:g} s (run.command_timeout_s)", timeout_s);
    }
  }
}

// True when there was one.
bool replace_all(std::string& text, const std::string& name, const std::string& value) {
  const std::string pattern = "{" + name + "}";
  bool found = false;
  for (std::size_t at = text.find(pattern); at != std::string::npos;
       at = text.find(pattern, at + value.size())) {
    text.replace(at, pattern.size(), value);
    found = true;
  }
  return found;
}

// Without a slash at the end.
std::string absolute_path(const std::string& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).string();
}

std::string path_of_notes(const std::string& run_folder) {
  return run_folder + "/commands.jsonl";
}

}  // namespace

CommandEnd run_command(const CommandStart& start, const std::stop_token& stops) {
  make_folders(fs::path(start.log).parent_path().string(), ErrorCategory::kInternal);
  const Descriptor log(start.log, O_RDWR | O_CREAT | O_APPEND, ErrorCategory::kInternal);
  const std::int64_t log_begin = ::lseek(log.get(), 0, SEEK_END);
  std::optional<Descriptor> output;
  if (start.keeps_output) output.emplace(open_unnamed_file());
  CommandEnd end;
  try {
    Process process({.words = start.words,
                     .variables = start.variables,
                     .output = output ? output->get() : log.get(),
                     .error_output = log.get(),
                     .low_priority = start.low_priority});
    end.failure = run(process, start.timeout_s, stops);
  } catch (const Error& error) {
    end.failure = error.message();
    return end;
  }
  end.succeeded = end.failure.empty();
  if (output) end.output = read_from(*output, 0);
  if (end.succeeded) return end;
  const std::string said = last_line(read_from(log, log_begin));
  if (!said.empty()) end.failure += ": " + said;
  return end;
}

std::vector<std::string> command_words(const std::vector<std::string>& words,
                                       const std::string& run_folder, std::int64_t step,
                                       const std::string& name, const std::string& folder) {
  std::vector<std::string> filled = words;
  bool has_folder = false;
  for (std::string& word : filled) {
    replace_all(word, "step", std::to_string(step));
    replace_all(word, "run", fs::path(absolute_path(run_folder)).filename().string());
    has_folder = replace_all(word, name, absolute_path(folder)) || has_folder;
  }
  if (!has_folder) filled.push_back(absolute_path(folder));
  return filled;
}

std::vector<std::pair<std::string, std::string>> command_variables(const std::string& run_folder,
                                                                   std::int64_t step,
                                                                   const std::string& checkpoint) {
  return {{"PACKTRAIN_RUN", absolute_path(run_folder)},
          {"PACKTRAIN_STEP", std::to_string(step)},
          {"PACKTRAIN_CHECKPOINT", absolute_path(checkpoint)}};
}

bool has_succeeded(const std::string& run_folder, const std::string& command, std::int64_t step) {
  const std::string path = path_of_notes(run_folder);
  std::error_code unreadable;
  if (!fs::exists(path, unreadable)) return false;
  const std::string text = read_text(path, ErrorCategory::kInternal);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto note = nlohmann::json::parse(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                            text.begin() + static_cast<std::ptrdiff_t>(end),
                                            nullptr, /*allow_exceptions=*/false);
    begin = end + 1;
    const auto has = [&note](const char* key, const nlohmann::json& value) {
      return note.is_object() && note.contains(key) && note[key] == value;
    };
    if (has("command", command) && has("step", step) && has("succeeded", true)) return true;
  }
  return false;
}

void note_command(const std::string& run_folder, const std::string& command, std::int64_t step,
                  const CommandEnd& end, double duration_s) noexcept {
  try {
    nlohmann::ordered_json note = {{"command", command},
                                   {"step", step},
                                   {"succeeded", end.succeeded},
                                   {"duration_s", duration_s}};
    if (!end.succeeded) note["failure"] = end.failure;
    OutputFile file(path_of_notes(run_folder), OutputFile::Mode::kAppend, ErrorCategory::kInternal);
    const auto replaces = nlohmann::ordered_json::error_handler_t::replace;
    file.write(note.dump(-1, ' ', false, replaces) + "\n");
    file.close();
  } catch (const std::exception& error) {
    log_warning("how {} ended for step {} was not noted: {}", command, step, error.what());
  }
}

}  // namespace packtrain
