#include "training/saving/checkpoint_commands.h"

#include <fmt/format.h>

#include <string>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/core/process_environment.h"
#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/training_state.h"
#include "training/saving/command.h"

namespace packtrain {

CheckpointCommands::CheckpointCommands(const Config& config, std::int64_t resumed_step) {
  if (!config.checkpoint.after_save.empty()) after_save_ = std::make_unique<AfterSave>(config);
  if (!config.run.evaluate_command.empty()) evaluate_ = std::make_unique<EvaluateCommand>(config);
  const std::string& run = config.run.output;
  if (resumed_step < 0 || !is_checkpoint(folder_path(checkpoints_folder(run), resumed_step)))
    return;
  newest_ = resumed_step;
  const auto is_left = [&](const char* key) { return !has_succeeded(run, key, resumed_step); };
  if (after_save_ && is_left(AfterSave::kKey)) after_save_->add(resumed_step);
  if (evaluate_ && is_left(EvaluateCommand::kKey)) evaluate_->add(resumed_step);
}

CheckpointCommands::~CheckpointCommands() {
  stop();
}

bool CheckpointCommands::are_wanted(const Config& config) {
  return !config.checkpoint.after_save.empty() || !config.run.evaluate_command.empty();
}

void CheckpointCommands::check_programs(const Config& config) {
  const auto check = [](const char* key, const std::vector<std::string>& words) {
    if (words.empty() || is_program(words.front())) return;
    throw Error(ErrorCategory::kConfig,
                fmt::format("{} starts {}, which is no program here", key, words.front()),
                "Give its path, or a name on PATH of rank 0's machine. A command is a list of "
                "words: no shell reads it.");
  };
  check(AfterSave::kKey, config.checkpoint.after_save);
  check(EvaluateCommand::kKey, config.run.evaluate_command);
}

void CheckpointCommands::add(std::int64_t step) {
  if (step == newest_) return;
  newest_ = step;
  if (after_save_) after_save_->add(step);
  if (evaluate_) evaluate_->add(step);
}

std::vector<std::int64_t> CheckpointCommands::steps_in_use() const {
  std::vector<std::int64_t> steps;
  const auto add_all = [&steps](StepWorker& worker) {
    for (const std::int64_t step : worker.steps()) steps.push_back(step);
  };
  if (after_save_) add_all(after_save_->worker());
  if (evaluate_) add_all(evaluate_->worker());
  return steps;
}

std::vector<CommandRecord> CheckpointCommands::take_records() {
  return evaluate_ ? evaluate_->take_records() : std::vector<CommandRecord>();
}

bool CheckpointCommands::wait(std::chrono::duration<double> limit) {
  const auto begin = std::chrono::steady_clock::now();
  if (after_save_ && !after_save_->worker().wait(limit)) return false;
  const std::chrono::duration<double> used = std::chrono::steady_clock::now() - begin;
  return !evaluate_ || evaluate_->worker().wait(limit - used);
}

void CheckpointCommands::stop_evaluations() {
  if (!evaluate_) return;
  for (const std::int64_t step : evaluate_->worker().steps()) {
    log_info("{} of step {} is ended with the run", EvaluateCommand::kKey, step);
  }
  evaluate_->worker().stop();
}

// Both have the time to end in parallel.
void CheckpointCommands::stop() {
  if (after_save_) {
    for (const std::int64_t step : after_save_->worker().steps()) {
      log_warning("{} of step {} is not done: it is ended with the run", AfterSave::kKey, step);
    }
  }
  if (after_save_) after_save_->worker().request_stop();
  if (evaluate_) evaluate_->worker().stop();
  if (after_save_) after_save_->worker().stop();
}

}  // namespace packtrain
