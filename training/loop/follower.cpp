#include "training/loop/follower.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/core/shell_word.h"

namespace packtrain {
namespace {

constexpr std::chrono::seconds kCheckWithin{180};
constexpr std::chrono::seconds kLastSeconds{5};
constexpr std::size_t kMaxShownBytes = 2000;  // of what a failed check printed

std::string variable_or(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || value[0] == '\0' ? otherwise : value;
}

std::string log_path(const Config& config) {
  return config.run.output + "/log/follow.log";
}

// Projects and servers come from the variables that the two packages read themselves.
std::vector<std::string> follow_command(const Config& config) {
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "follow", config.run.output};
  const auto add = [&words](const char* option, std::string value) {
    words.emplace_back(option);
    words.push_back(std::move(value));
  };
  for (const ReportTo target : config.metrics.report_to) {
    switch (target) {
      case ReportTo::kTensorBoard:
        add("--tensorboard", config.run.output + "/tensorboard");
        break;
      case ReportTo::kWandb:
        add("--wandb", variable_or("WANDB_PROJECT", "packtrain"));
        break;
      case ReportTo::kMlflow:
        add("--mlflow", variable_or("MLFLOW_EXPERIMENT_NAME", "packtrain"));
        break;
    }
  }
  return words;
}

// Starts the command with its output at the end of the log. `begin`: where that is.
std::unique_ptr<Process> start(const Config& config, const std::vector<std::string>& words,
                               std::size_t& begin) {
  make_folders(config.run.output + "/log", ErrorCategory::kConfig);
  const Descriptor log(log_path(config), O_WRONLY | O_CREAT | O_APPEND, ErrorCategory::kConfig);
  begin = static_cast<std::size_t>(::lseek(log.get(), 0, SEEK_END));
  return std::make_unique<Process>(ProcessOptions{
      .words = words, .output = log.get(), .error_output = log.get(), .blocks_sigterm = true});
}

}  // namespace

void check_report_to(const Config& config) {
  if (config.metrics.report_to.empty()) return;
  std::vector<std::string> words = follow_command(config);
  words.emplace_back("--check");
  std::size_t begin = 0;
  const std::unique_ptr<Process> process = start(config, words, begin);
  const auto end = process->wait(kCheckWithin);
  if (end && end->succeeded()) return;
  std::string said = read_text(log_path(config), ErrorCategory::kConfig);
  said = said.substr(std::min(begin, said.size())).substr(0, kMaxShownBytes);
  while (said.ends_with('\n')) said.pop_back();
  throw Error(ErrorCategory::kConfig,
              fmt::format("metrics.report_to cannot be served: `packtrain follow` {}{}{}",
                          end ? "ended with " + end->describe() : "does not come to an end",
                          said.empty() ? "" : ": ", said),
              "Repair what it names, or leave it out of metrics.report_to.");
}

Follower::Follower(const Config& config) : config_(config) {
  if (config.metrics.report_to.empty()) return;
  std::vector<std::string> words = follow_command(config);
  words.insert(words.end(), {"--parent", std::to_string(::getpid())});
  std::size_t begin = 0;
  try {
    process_ = start(config, words, begin);
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

// Of a run that returns to an earlier step, or fails.
Follower::~Follower() {
  try {
    finish(kLastSeconds);
  } catch (const std::exception& error) {
    log_warning("metrics.report_to: {}", error.what());
  }
}

void Follower::look() {
  if (process_ == nullptr) return;
  const auto end = process_->wait(std::chrono::seconds(0));
  if (end) warn(fmt::format("`packtrain follow` ended with {}", end->describe()));
}

void Follower::finish(std::chrono::duration<double> limit) {
  look();
  if (process_ == nullptr) return;
  const ProcessEnd end = process_->end(limit);
  if (!end.succeeded()) {
    warn(fmt::format("`packtrain follow` ended with {}", end.describe()));
  }
  process_.reset();
}

void Follower::warn(const std::string& what) {
  log_warning(
      "metrics.report_to: {}; {} says why. metrics.jsonl is whole: `packtrain follow {} --once` "
      "with the same options sends what is missing",
      what, log_path(config_), shell_word(config_.run.output));
  process_.reset();
}

}  // namespace packtrain
