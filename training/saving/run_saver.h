// Saves a run's checkpoints. An asynchronous save runs while the run trains and costs a step only
// the copy to host memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/manifest_cache.h"
#include "training/saving/checkpoint_commands.h"
#include "training/saving/state_snapshot.h"

namespace packtrain {

class RunSaver {
 public:
  // Collective. All arguments must outlive the object. `resumed_step`: step of the checkpoint that
  // the run resumed from, else -1. `constants`: shards on the CPU that every checkpoint has in
  // addition to the model's.
  RunSaver(const Config& config, World& world, Device& device, ShardedModel& model,
           std::int64_t resumed_step, std::span<const ShardView> constants = {});
  ~RunSaver() { wait(); }
  RunSaver(const RunSaver&) = delete;
  RunSaver& operator=(const RunSaver&) = delete;

  // Call it before the first step. Allocates the host memory of asynchronous saves if any are due.
  // Pinning it blocks a GPU's host for seconds (3.7 for 14 GiB, measured).
  void prepare();

  // All of these are collective. Every rank calls them after the same steps.
  // Waits for the previous save if it is in flight. A failed save is logged and counted. After
  // checkpoint.max_failed_saves failures in a row the next call throws Error(kCheckpoint), the same
  // on every rank.
  void save(const TrainingState& state);
  // Returns when a checkpoint of these steps exists. Throws Error(kCheckpoint) when saving failed.
  void save_now(const TrainingState& state);
  // Whether this process, or the run that it resumes, began a save of these steps.
  bool has_begun(std::int64_t step) const { return begun_ == step; }
  // Adds to the latest checkpoint what became known of its weights since (amend_checkpoint), once
  // it is complete. Runs asynchronously if the save does.
  void amend(const TrainingState& state);
  // Waits for the save in flight. Throws when it failed.
  void finish();
  // The next three are of rank 0 and not collective. Metrics that commands printed since the last
  // call.
  std::vector<CommandRecord> take_command_records();
  // Waits for the commands on checkpoints, after finish(). False when that takes longer than
  // `limit`. A run that stops on request does not wait for evaluations.
  bool wait_for_commands(std::chrono::duration<double> limit, bool stops);
  // Ends commands that still run, and removes the checkpoints that were kept for them alone.
  void end_commands();
  // As finish(), but leaves a failure unhandled. For destructors.
  void wait() {
    if (pending_.valid()) pending_.wait();
  }

  // Call it before the model's weights and moments are written: a copy of them may be in flight.
  // State in host memory is saved without a copy. Where reads_state(), the host waits for the save.
  void before_update();
  // True while a save reads the model's own state. The same on all ranks.
  bool reads_state() const { return pending_.valid() && model_.parameters().state().is_on_host; }

  std::int64_t newest() const { return newest_; }  // steps done at the newest checkpoint; -1: none
  // Failed saves, and seconds that steps waited for saving, since the last call.
  std::int64_t take_num_failed() { return std::exchange(failures_.num_not_taken, 0); }
  double take_wait_s() { return std::exchange(wait_s_, 0.0); }
  // Unix time at which the newest checkpoint was complete (before the first one: the process's
  // start), and how long it took to write.
  double newest_unix_time_s() const { return newest_unix_time_s_; }
  double newest_duration_s() const { return newest_duration_s_; }

 private:
  StateSnapshot& snapshot();  // made on first use
  std::vector<ShardView> shards() const;
  std::vector<ShardView> own_shards();
  void write(const TrainingState& state, std::span<const ShardView> shards);
  Retention retention();
  // Starts the commands when all that belongs to the checkpoint is in it.
  void start_commands(const TrainingState& state);
  void settle(bool throws);  // waits for the save in flight, if any, and handles its failure

  const Config& config_;
  ShardedModel& model_;
  std::span<const ShardView> constants_;
  Device& device_;
  std::unique_ptr<Communicator> control_;  // of the thread that saves
  std::unique_ptr<StateSnapshot> snapshot_;
  std::unique_ptr<CheckpointCommands> commands_;  // of rank 0, or none
  std::future<void> pending_;
  std::atomic<std::int64_t> newest_;  // this and the next two: set by the thread that writes
  std::atomic<double> newest_unix_time_s_;
  std::atomic<double> newest_duration_s_ = 0;
  std::int64_t begun_;
  struct Failures {
    std::int64_t num_not_taken = 0;  // by take_num_failed()
    std::int64_t num_in_a_row = 0;
  } failures_;
  ManifestCache manifests_;  // of rank 0
  double wait_s_ = 0;
};

}  // namespace packtrain
