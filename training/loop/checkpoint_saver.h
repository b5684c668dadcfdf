// Saves a run: decides after which steps, collects the state, and checks the replicas before.
// RunSaver writes the files.
#pragma once

#include <cstdint>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "training/checkpoint/training_state.h"
#include "training/guards/replica_check.h"
#include "training/guards/step_guards.h"
#include "training/loop/evaluation_tracker.h"
#include "training/loop/planned_run.h"
#include "training/loop/run_guards.h"
#include "training/loop/run_inputs.h"
#include "training/saving/run_saver.h"

namespace packtrain {

class CheckpointSaver {
 public:
  // Collective. All arguments must outlive the object.
  CheckpointSaver(const Config& config, const RunInputs& inputs, const PlannedRun& run,
                  const EvaluationTracker& tracker, const StepGuards& step_guards,
                  ReplicaCheck& replicas, RunGuards& guards, World& world);

  // By the configuration, or on the request of a user.
  bool is_due(std::int64_t steps_done) const;
  // The functions below are collective. The last save of a run is complete when save() returns.
  void save(std::int64_t steps_done, bool is_last);
  // RunSaver::before_update() of step `number`, within guard.checkpoint_timeout_s.
  void before_update(std::int64_t number);
  // Returns when a complete checkpoint of these steps exists.
  void save_now(std::int64_t steps_done);
  // Keeps the weights that were just evaluated, if they are the best or end the run early. Adds
  // their loss to a checkpoint of them that was begun before.
  void keep_evaluated(std::int64_t steps_done, bool is_among_the_best);
  // Adds to a checkpoint of these steps, if one was begun, that samples were written.
  void amend(std::int64_t steps_done);

  RunSaver& writer() { return writer_; }

 private:
  TrainingState state(std::int64_t steps_done) const;
  void check_replicas(std::int64_t steps_done);

  const Config& config_;
  const RunInputs& inputs_;
  const PlannedRun& run_;
  const EvaluationTracker& tracker_;
  const StepGuards& step_guards_;
  ReplicaCheck& replicas_;
  RunGuards& guards_;
  int num_ranks_;
  RunSaver writer_;
};

}  // namespace packtrain
