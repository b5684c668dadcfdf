#include "training/loop/checkpoint_saver.h"

#include "framework/config/load.h"
#include "framework/core/logging.h"
#include "models/adapters/lora_text.h"
#include "training/plan/plan_header.h"
#include "training/steps/due_steps.h"

namespace packtrain {

CheckpointSaver::CheckpointSaver(const Config& config, const RunInputs& inputs,
                                 const PlannedRun& run, const EvaluationTracker& tracker,
                                 const StepGuards& step_guards, ReplicaCheck& replicas,
                                 RunGuards& guards, World& world)
    : config_(config),
      inputs_(inputs),
      run_(run),
      tracker_(tracker),
      step_guards_(step_guards),
      replicas_(replicas),
      guards_(guards),
      num_ranks_(world.size()),
      writer_(config, world, *inputs.device.device, *run.model,
              run.resumed ? run.resumed->step : -1, run.initial_values) {
  if (next_due(config.checkpoint.save_steps, run.first_step(), run.total_steps(),
               run.plan->planner()) < run.total_steps()) {
    writer_.prepare();
  }
}

bool CheckpointSaver::is_due(std::int64_t steps_done) const {
  const std::int64_t total = run_.total_steps();
  return packtrain::is_due(config_.checkpoint.save_steps, steps_done, total,
                           run_.plan->planner()) ||
         guards_.requests.save_agreed() || (steps_done == total && config_.checkpoint.save_final);
}

TrainingState CheckpointSaver::state(std::int64_t steps_done) const {
  const Planner& planner = run_.plan->planner();
  TrainingState state;
  state.step = steps_done;
  state.epoch = planner.position(steps_done - 1).epoch;
  state.seed = config_.run.seed;
  state.num_ranks = num_ranks_;
  state.total_steps = run_.total_steps();
  state.config_hash = hash_config(config_);
  state.data_fingerprint = inputs_.stores.all->fingerprint();
  state.config_yaml = dump_config(config_);
  state.model_config = inputs_.source.config_json;
  PlanHeader header = run_.plan->header();
  header.ends_epoch = planner.ends_epoch(steps_done - 1);
  state.plan_header = plan_header_text(header);
  state.guard = step_guards_.state();
  tracker_.add_to(state);
  if (const auto& adapter = inputs_.source.adapter) {
    state.adapter = lora_list_text(adapter->adapters);
    state.base_digest = run_.base_digest;
  }
  state.reference_digest = run_.reference.digest;
  state.weights_only = config_.checkpoint.weights_only;
  if (run_.resumed) state.resumed_from = run_.resumed->resumed_from;
  return state;
}

void CheckpointSaver::check_replicas(std::int64_t steps_done) {
  replicas_.check_now(steps_done, run_.learning_rates_at(steps_done - 1).front());
}

void CheckpointSaver::save(std::int64_t steps_done, bool is_last) {
  guards_.requests.clear_save();
  set_log_position(steps_done, "checkpoint");
  guards_.watchdog.enter(RunPhase::kCheckpoint, steps_done);
  guards_.faults.maybe_inject(FaultPhase::kSave, steps_done);
  check_replicas(steps_done);
  if (is_last) {
    writer_.save_now(state(steps_done));
  } else {
    writer_.save(state(steps_done));
  }
  guards_.watchdog.enter(RunPhase::kStep, steps_done + 1);
}

void CheckpointSaver::before_update(std::int64_t number) {
  const bool waits = writer_.reads_state();
  if (waits) guards_.watchdog.enter(RunPhase::kCheckpoint, number);
  writer_.before_update();
  if (waits) guards_.watchdog.enter(RunPhase::kStep, number);
}

void CheckpointSaver::save_now(std::int64_t steps_done) {
  set_log_position(steps_done, "checkpoint");
  guards_.watchdog.enter(RunPhase::kCheckpoint, steps_done);
  check_replicas(steps_done);
  writer_.save_now(state(steps_done));
}

void CheckpointSaver::keep_evaluated(std::int64_t steps_done, bool is_among_the_best) {
  const bool ends_early = tracker_.ends_run();
  if (writer_.has_begun(steps_done)) {
    writer_.amend(state(steps_done));
  } else if (is_among_the_best || (ends_early && config_.checkpoint.save_final)) {
    save(steps_done, ends_early || steps_done == run_.total_steps());
  }
}

void CheckpointSaver::amend(std::int64_t steps_done) {
  if (writer_.has_begun(steps_done)) writer_.amend(state(steps_done));
}

}  // namespace packtrain
