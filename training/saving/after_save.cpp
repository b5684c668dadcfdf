#include "training/saving/after_save.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>

#include "framework/core/clock.h"
#include "framework/core/logging.h"
#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/training_state.h"
#include "training/saving/command.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::chrono::seconds, 2> kPauses = {std::chrono::seconds(2),
                                                         std::chrono::seconds(10)};

// Returns early when a stop is requested.
void pause(std::chrono::seconds length, const std::stop_token& stops) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stops, length, [] { return false; });
}

}  // namespace

AfterSave::AfterSave(const Config& config)
    : config_(config),
      worker_([this](std::int64_t step, const std::stop_token& stops) { work(step, stops); },
              /*newest_only=*/false) {}

void AfterSave::add(std::int64_t step) {
  worker_.add(step);
  const auto num_behind = worker_.steps().size() - 1;
  if (num_behind < 2) return;
  log_warning("{} is {} checkpoints behind: they stay on the disk until it has ended for them",
              kKey, num_behind);
}

void AfterSave::work(std::int64_t step, const std::stop_token& stops) {
  const std::string& run = config_.run.output;
  const std::string folder = folder_path(checkpoints_folder(run), step);
  const CommandStart start{
      .words = command_words(config_.checkpoint.after_save, run, step, "checkpoint", folder),
      .variables = command_variables(run, step, folder),
      .log = run + "/log/after_save.log",
      .timeout_s = config_.run.command_timeout_s};
  try {
    for (std::size_t failures = 0;; ++failures) {
      const auto begin = Clock::now();
      const CommandEnd end = run_command(start, stops);
      note_command(run, kKey, step, end, seconds_since(begin));
      if (end.succeeded) {
        log_info("{} of step {} took {:.1f} s", kKey, step, seconds_since(begin));
        return;
      }
      if (stops.stop_requested()) return;  // CheckpointCommands has said so
      const bool is_last = failures == kPauses.size();
      log_warning(
          "{} of step {} failed ({} of {} tries): {}{}", kKey, step, failures + 1,
          kPauses.size() + 1, end.failure,
          is_last ? fmt::format(". Training continues; {} has what it printed", start.log) : "");
      if (is_last) return;
      pause(kPauses.at(failures), stops);
      if (stops.stop_requested()) return;
    }
  } catch (const std::exception& error) {
    log_warning("{} of step {} could not be started: {}", kKey, step, error.what());
  }
}

}  // namespace packtrain
