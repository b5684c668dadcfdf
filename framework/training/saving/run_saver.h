// Saves a run's checkpoints, beside the training where the configuration wants that: then a save
// costs the steps no more than a copy to host memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/checkpoint/checkpoint.h"
#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/training/saving/state_snapshot.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {

class RunSaver {
 public:
  // Collective. Everything given must outlive it.
  // `resumed_step`: of the checkpoint that the run goes on from, else -1.
  RunSaver(const Config& config, World& world, Device& device, ShardedModel& model,
           std::int64_t resumed_step);
  ~RunSaver();  // waits for the save that is under way
  RunSaver(const RunSaver&) = delete;
  RunSaver& operator=(const RunSaver&) = delete;

  // Before the first step: takes the host memory of saves that go on beside the training, where
  // some are due. Pinning it takes a GPU's host seconds (3.7 for 14 GiB, measured).
  void prepare();

  // All are collective and called by every rank after the same steps.
  // Waits for the save before this one, if any is under way. A save that fails is logged and
  // counted; after checkpoint.max_failed_saves failures in a row the next throws
  // Error(kCheckpoint), the same on every rank.
  void save(const TrainingState& state);
  // Returns when there is a checkpoint of these steps; throws Error(kCheckpoint) where it failed.
  void save_now(const TrainingState& state);
  // Whether a save of these steps was begun, by this process or the one that it goes on from.
  bool has_begun(std::int64_t step) const { return begun_ == step; }
  // Of the latest save: what became known of its weights since (amend_checkpoint), once it is
  // whole; beside the training where the save is.
  void amend(const TrainingState& state);
  // Waits for what is under way; throws where it failed.
  void finish();

  // To be called before the model's weights and moments are written: they may still be copied.
  void before_update() {
    if (snapshot_ != nullptr) snapshot_->wait_until_copied(model_.compute());
  }

  std::int64_t newest() const { return newest_; }  // steps done at the newest checkpoint; -1: none
  // Failed saves and seconds that the steps stood still for saving, since the last call.
  std::int64_t take_num_failed() { return std::exchange(num_failed_, 0); }
  double take_wait_s() { return std::exchange(wait_s_, 0.0); }
  // Unix time at which the newest checkpoint was complete, of the process's start before its first;
  // and how long it took to write.
  double newest_unix_time_s() const { return newest_unix_time_s_; }
  double newest_duration_s() const { return newest_duration_s_; }

 private:
  StateSnapshot& snapshot();  // made when first asked for
  std::vector<ShardView> own_shards();
  void write(const TrainingState& state, std::span<const ShardView> shards);
  Retention retention() const;
  void settle(bool throws);  // the save under way, if any: waits for it and judges it

  const Config& config_;
  ShardedModel& model_;
  Device& device_;
  std::unique_ptr<Communicator> control_;  // of the thread that saves
  std::unique_ptr<StateSnapshot> snapshot_;
  std::future<void> pending_;
  std::atomic<std::int64_t> newest_;  // this and below: set where it is written
  std::atomic<double> newest_unix_time_s_;
  std::atomic<double> newest_duration_s_ = 0;
  std::int64_t begun_;
  std::int64_t num_failed_ = 0;
  std::int64_t num_consecutive_failures_ = 0;
  double wait_s_ = 0;
};

}  // namespace packtrain
