#include "training/saving/run_saver.h"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/logging.h"
#include "framework/device/trace_range.h"
#include "training/checkpoint/folder_names.h"
#include "training/checkpoint/retention.h"
#include "training/guards/stop_notice.h"
#include "training/saving/run_folder.h"
#include "training/setup/adapter_source.h"

namespace packtrain {
namespace {

// Adds the time of its own lifetime to a sum.
class WaitTimer {
 public:
  explicit WaitTimer(double& sum_s) : sum_s_(sum_s) {}
  ~WaitTimer() {
    sum_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  double& sum_s_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

double unix_time_s() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

// launch/packtrain-run restarts a run only while it makes checkpoints. Must not throw: the
// checkpoint is complete on all ranks, and no rank may treat it as failed.
void notify_launcher(std::int64_t step) noexcept {
  const char* path = std::getenv("PACKTRAIN_STATUS_FILE");
  if (path == nullptr) return;
  try {
    OutputFile file(path, OutputFile::Mode::kAppend, ErrorCategory::kInternal);
    file.write("saved step " + std::to_string(step) + "\n");
    file.close();
  } catch (const std::exception& error) {
    log_warning(
        "step {} is saved, but packtrain-run was not told (a restart may be refused for it): {}",
        step, error.what());
  }
}

}  // namespace

RunSaver::RunSaver(const Config& config, World& world, Device& device, ShardedModel& model,
                   std::int64_t resumed_step, std::span<const ShardView> constants)
    : config_(config),
      model_(model),
      constants_(constants),
      device_(device),
      control_(world.control().split(0, world.rank())),
      newest_(resumed_step),
      newest_unix_time_s_(unix_time_s()),
      begun_(resumed_step) {
  if (control_->rank() != 0) return;
  const std::string own = folder_path(checkpoints_folder(config.run.output), resumed_step);
  note_newest_checkpoint(is_checkpoint(own) ? own : "");
  if (CheckpointCommands::are_wanted(config)) {
    commands_ = std::make_unique<CheckpointCommands>(config, resumed_step);
  }
}

void RunSaver::prepare() {
  const CheckpointSection& options = config_.checkpoint;
  if (options.asynchronous && !options.save_steps.is_never() && model_.ranks().saves_shards())
    snapshot();
}

StateSnapshot& RunSaver::snapshot() {
  if (snapshot_ != nullptr) return *snapshot_;
  std::vector<ShardView> copied = shards();
  if (config_.checkpoint.weights_only) {
    for (ShardView& shard : copied) shard.optimizer.clear();
  }
  snapshot_ = std::make_unique<StateSnapshot>(copied, device_);
  return *snapshot_;
}

std::vector<ShardView> RunSaver::shards() const {
  return saved_shards(model_.parameters().shards(), trains_adapter(config_));
}

std::vector<ShardView> RunSaver::own_shards() {
  model_.compute().synchronize();
  return model_.ranks().saves_shards() ? shards() : std::vector<ShardView>();
}

void RunSaver::write(const TrainingState& state, std::span<const ShardView> shards) {
  const TraceRange range("checkpoint of step " + std::to_string(state.step));
  double duration_s = 0;
  std::string folder;
  {
    const WaitTimer timer(duration_s);
    std::vector<ShardView> all(shards.begin(), shards.end());
    all.insert(all.end(), constants_.begin(), constants_.end());
    folder =
        save_checkpoint(checkpoints_folder(config_.run.output), state, all, retention(), *control_);
  }
  if (control_->rank() == 0) {
    notify_launcher(state.step);
    note_newest_checkpoint(folder);
  }
  log_info("saved {}", folder);
  newest_ = state.step;
  newest_duration_s_ = duration_s;
  newest_unix_time_s_ = unix_time_s();
  start_commands(state);
}

void RunSaver::save(const TrainingState& state) {
  const WaitTimer timer(wait_s_);
  settle(/*throws=*/false);
  begun_ = state.step;
  const bool asynchronous = config_.checkpoint.asynchronous;
  if (asynchronous && model_.ranks().saves_shards()) snapshot().take(model_.compute());
  pending_ = std::async(asynchronous ? std::launch::async : std::launch::deferred, [=, this] {
    if (!asynchronous) {
      write(state, own_shards());
      return;
    }
    write(state, snapshot_ ? snapshot_->shards() : std::span<const ShardView>());
  });
  if (!asynchronous) settle(/*throws=*/false);
}

void RunSaver::before_update() {
  if (snapshot_ != nullptr) snapshot_->wait_until_copied(model_.compute());
  if (!reads_state()) return;
  const WaitTimer timer(wait_s_);
  pending_.wait();
}

void RunSaver::save_now(const TrainingState& state) {
  const WaitTimer timer(wait_s_);
  settle(/*throws=*/false);
  if (newest_ == state.step) return;
  begun_ = state.step;
  write(state, own_shards());
}

Retention RunSaver::retention() {
  return {config_.checkpoint.keep, config_.checkpoint.keep_best,
          commands_ ? commands_->steps_in_use() : std::vector<std::int64_t>(), &manifests_};
}

// An evaluation or samples that are due change the manifest when they are done.
void RunSaver::start_commands(const TrainingState& state) {
  if (commands_ == nullptr || state.evaluation_due || state.samples_due) return;
  if (is_checkpoint(folder_path(checkpoints_folder(config_.run.output), state.step))) {
    commands_->add(state.step);
  }
}

std::vector<CommandRecord> RunSaver::take_command_records() {
  return commands_ ? commands_->take_records() : std::vector<CommandRecord>();
}

bool RunSaver::wait_for_commands(std::chrono::duration<double> limit, bool stops) {
  if (commands_ == nullptr) return true;
  const std::string root = checkpoints_folder(config_.run.output);
  if (newest_ >= 0 && is_checkpoint(folder_path(root, newest_))) commands_->add(newest_);
  if (stops) commands_->stop_evaluations();
  return commands_->wait(limit);
}

void RunSaver::end_commands() {
  if (commands_ == nullptr) return;
  commands_->stop();
  remove_old_checkpoints(checkpoints_folder(config_.run.output), retention(), newest_);
}

void RunSaver::amend(const TrainingState& state) {
  if (control_->rank() != 0) return;
  const auto write_loss = [this, state] {
    amend_checkpoint(checkpoints_folder(config_.run.output), state, retention());
    start_commands(state);
  };
  if (!pending_.valid()) return write_loss();
  pending_ = std::async(std::launch::async, [before = std::move(pending_), write_loss]() mutable {
    before.get();
    write_loss();
  });
}

void RunSaver::finish() {
  const WaitTimer timer(wait_s_);
  settle(/*throws=*/true);
}

void RunSaver::settle(bool throws) {
  if (!pending_.valid()) return;
  try {
    pending_.get();
    failures_.num_in_a_row = 0;
  } catch (const Error& error) {
    // Ranks agree on failed saves only, not on other errors.
    if (error.category() != ErrorCategory::kCheckpoint) throw;
    ++failures_.num_not_taken;
    ++failures_.num_in_a_row;
    if (throws || failures_.num_in_a_row > config_.checkpoint.max_failed_saves) throw;
    // All ranks know of it, so only one logs it.
    log(control_->rank() == 0 ? LogLevel::kWarning : LogLevel::kDebug,
        "{} (training continues: failed save {} in a row, checkpoint.max_failed_saves {})",
        error.what(), failures_.num_in_a_row, config_.checkpoint.max_failed_saves);
  }
}

}  // namespace packtrain
