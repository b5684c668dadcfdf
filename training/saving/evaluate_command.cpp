#include "training/saving/evaluate_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "framework/config/adapters.h"
#include "framework/core/logging.h"
#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/training_state.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

// A folder that is removed with the object and all that is in it.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) { remove(); }
  ~ScratchFolder() { remove(); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  void remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    fs::remove_all(path_ + ".tmp", ignored);             // of an export that was ended
    fs::remove(fs::path(path_).parent_path(), ignored);  // when it is empty
  }
  std::string path_;
};

// The tokenizer of the data, else of the model; "" where neither folder has one.
std::string tokenizer_folder(const Config& config) {
  std::vector<std::string> folders;
  for (const TrainStore& store : config.data.train) folders.push_back(store.path + "/tokenizer");
  if (!config.model.path.empty()) folders.push_back(config.model.path);
  for (const std::string& folder : folders) {
    std::error_code ignored;
    if (fs::exists(folder + "/tokenizer.json", ignored)) return folder;
  }
  return "";
}

std::optional<nlohmann::ordered_json> last_object(std::string_view output) {
  while (!output.empty()) {
    const std::size_t newline = output.rfind('\n');
    const std::size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    auto value = nlohmann::ordered_json::parse(output.substr(begin), nullptr,
                                               /*allow_exceptions=*/false);
    if (value.is_object()) return value;
    output = output.substr(0, begin == 0 ? 0 : begin - 1);
  }
  return std::nullopt;
}

}  // namespace

PrintedNumbers read_printed_numbers(const std::string& output) {
  PrintedNumbers found;
  const auto object = last_object(output);
  if (!object) {
    found.failure = "no line of its output is a JSON object";
    return found;
  }
  for (const auto& [name, value] : object->items()) {
    if (value.is_number() && std::isfinite(value.get<double>())) {
      found.numbers.emplace_back(name, value.get<double>());
    } else {
      found.others.push_back(name);
    }
  }
  if (found.numbers.empty()) {
    constexpr std::size_t kMaxQuoted = 200;
    found.failure = fmt::format("it printed no number: {}", object->dump().substr(0, kMaxQuoted));
  }
  return found;
}

EvaluateCommand::EvaluateCommand(const Config& config)
    : config_(config),
      worker_([this](std::int64_t step, const std::stop_token& stops) { work(step, stops); },
              /*newest_only=*/true) {}

void EvaluateCommand::add(std::int64_t step) {
  if (const auto left_out = worker_.add(step)) {
    log_info("{} leaves out step {}: it is still at work on an earlier one", kKey, *left_out);
  }
}

std::vector<CommandRecord> EvaluateCommand::take_records() {
  const std::lock_guard lock(mutex_);
  return std::exchange(records_, {});
}

// An adapter becomes a PEFT folder, which has no tokenizer.
CommandStart EvaluateCommand::export_start(const std::string& checkpoint,
                                           const std::string& folder) const {
  CommandStart start{
      .words = {fs::read_symlink("/proc/self/exe").string(), "export", checkpoint, "--out", folder},
      .log = config_.run.output + "/log/evaluate_command.log",
      .low_priority = true,
      .timeout_s = config_.run.command_timeout_s};
  const std::string tokenizer = trains_adapter(config_) ? "" : tokenizer_folder(config_);
  if (!tokenizer.empty()) start.words.insert(start.words.end(), {"--tokenizer", tokenizer});
  return start;
}

CommandEnd EvaluateCommand::evaluate(std::int64_t step, const std::stop_token& stops) {
  const std::string& run = config_.run.output;
  const std::string checkpoint = folder_path(checkpoints_folder(run), step);
  const ScratchFolder folder(
      (fs::absolute(run).lexically_normal() / "evaluate_command" / folder_name(step)).string());
  fs::create_directories(fs::path(folder.path()).parent_path());
  CommandStart start = export_start(checkpoint, folder.path());
  CommandEnd exported = run_command(start, stops);
  if (!exported.succeeded) {
    exported.failure = "the checkpoint was not exported: " + exported.failure;
    return exported;
  }
  start.words = command_words(config_.run.evaluate_command, run, step, "export", folder.path());
  start.variables = command_variables(run, step, checkpoint);
  start.variables.emplace_back("PACKTRAIN_EXPORT", folder.path());
  start.keeps_output = true;
  start.low_priority = false;
  return run_command(start, stops);
}

void EvaluateCommand::work(std::int64_t step, const std::stop_token& stops) {
  try {
    const auto begin = std::chrono::steady_clock::now();
    CommandEnd end = evaluate(step, stops);
    PrintedNumbers printed;
    if (end.succeeded) {
      printed = read_printed_numbers(end.output);
      end.failure = printed.failure;
      end.succeeded = end.failure.empty();
    }
    const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - begin;
    note_command(config_.run.output, kKey, step, end, duration.count());
    if (!end.succeeded && stops.stop_requested()) return;  // CheckpointCommands has said so
    if (!end.succeeded) {
      log_warning("{} of step {} gave no metric: {}. Training continues", kKey, step, end.failure);
      return;
    }
    if (!printed.others.empty()) {
      log_warning("{} of step {}: values that are no numbers are left out: {}", kKey, step,
                  fmt::join(printed.others, ", "));
    }
    const std::lock_guard lock(mutex_);
    records_.push_back({.step = step, .values = std::move(printed.numbers)});
  } catch (const std::exception& error) {
    log_warning("{} of step {} could not be started: {}", kKey, step, error.what());
  }
}

}  // namespace packtrain
