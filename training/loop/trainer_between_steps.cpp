// Work between steps: saves first, then evaluations and samples. If these fail or are interrupted,
// no trained step is lost.
#include <fmt/format.h>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/checkpoint/checkpoint.h"
#include "training/loop/trainer.h"

namespace packtrain {

void Trainer::evaluate_and_sample(std::int64_t steps_done) {
  if (!due_.any()) return;
  watchdog_->enter(RunPhase::kCheckpoint, steps_done);
  try {
    if (due_.evaluation) evaluate(steps_done);
    if (due_.samples) sample(steps_done);
  } catch (const EvaluationStopped&) {
    stop(steps_done);
  } catch (const EvaluationError& error) {
    fail_after_saving(steps_done, error);
  }
  watchdog_->enter(RunPhase::kStep, steps_done + 1);
  clock_->restart();
}

void Trainer::evaluate(std::int64_t steps_done) {
  set_log_position(steps_done, "evaluate");
  evaluations_->lower_budget(plan_->layout().max_tokens_per_micro_batch);
  const EvaluationRecord record =
      evaluations_->evaluate(*model_, steps_done, [this] { return stop_signal_.requested(); });
  due_.evaluation = false;
  metrics_->evaluation(record);
  if (steps_done == 0) return;  // nothing trained, nothing to save
  early_stopping_->add(steps_done, record.loss);
  if (early_stopping_->is_over() && samples_ != nullptr) due_.samples = true;
  keep_loss(steps_done, best_->add(steps_done, record.loss));
}

void Trainer::keep_loss(std::int64_t steps_done, bool is_among_the_best) {
  const bool ends_early = early_stopping_->is_over();
  if (saver_->has_begun(steps_done)) {
    saver_->amend(state(steps_done));
  } else if (is_among_the_best || (ends_early && config_.checkpoint.save_final)) {
    save(steps_done, ends_early || steps_done == total_steps_);
  }
}

void Trainer::sample(std::int64_t steps_done) {
  set_log_position(steps_done, "sample");
  watchdog_->enter(RunPhase::kCheckpoint, steps_done);
  samples_->lower_budget(plan_->layout().max_tokens_per_micro_batch);
  samples_->write(*model_, steps_done);
  due_.samples = false;
  if (saver_->has_begun(steps_done)) saver_->amend(state(steps_done));
}

TrainingState Trainer::state(std::int64_t steps_done) const {
  TrainingState state;
  state.step = steps_done;
  state.epoch = plan_->planner().position(steps_done - 1).epoch;
  state.seed = config_.run.seed;
  state.num_ranks = world_.size();
  state.total_steps = total_steps_;
  state.config_hash = hash_config(config_);
  state.data_fingerprint = train_store_->fingerprint();
  state.config_yaml = dump_config(config_);
  state.model_config = source_.config_json;
  PlanHeader header = plan_->header();
  header.ends_epoch = plan_->planner().ends_epoch(steps_done - 1);
  state.plan_header = plan_header_text(header);
  state.guard = guard_->state();
  state.validation_loss = best_->after(steps_done);
  state.best_losses = best_->lowest();
  state.validation_set = evaluations_->deciding();
  if (!evaluations_->empty()) state.early_stopping = early_stopping_->state();
  state.evaluation_due = due_.evaluation;
  state.samples_due = due_.samples;
  state.weights_only = config_.checkpoint.weights_only;
  return state;
}

void Trainer::save(std::int64_t steps_done, bool is_last) {
  save_agreed_ = false;
  set_log_position(steps_done, "checkpoint");
  watchdog_->enter(RunPhase::kCheckpoint, steps_done);
  faults_.maybe_inject(FaultPhase::kSave, steps_done);
  replicas_->check_now(steps_done, learning_rate_->at(steps_done - 1));
  if (is_last) {
    saver_->save_now(state(steps_done));
  } else {
    saver_->save(state(steps_done));
  }
  watchdog_->enter(RunPhase::kStep, steps_done + 1);
}

void Trainer::save_now(std::int64_t steps_done) {
  trace_->end();
  set_log_position(steps_done, "checkpoint");
  watchdog_->enter(RunPhase::kCheckpoint, steps_done);
  replicas_->check_now(steps_done, learning_rate_->at(steps_done - 1));
  saver_->save_now(state(steps_done));
}

void Trainer::stop(std::int64_t steps_done) {
  if (steps_done == 0) {
    throw Error(ErrorCategory::kStopped, "stopped on request before the first step",
                "The same command begins again.");
  }
  save_now(steps_done);
  throw Error(ErrorCategory::kStopped,
              fmt::format("stopped on request after step {} of {}; saved in {}", steps_done,
                          total_steps_, checkpoints_folder(config_.run.output)),
              "The same command continues from there.");
}

void Trainer::fail_after_saving(std::int64_t steps_done, const EvaluationError& error) {
  const char* what = due_.evaluation ? "the evaluation" : "the writing of samples";
  if (steps_done == 0) {
    throw Error(error.category(),
                fmt::format("{} before the first step failed: {}", what, error.message()),
                error.advice());
  }
  log_warning("{} after step {} failed: {}", what, steps_done, error.message());
  save_now(steps_done);
  const std::string advice = error.advice().empty() ? "Repair what it names." : error.advice();
  throw Error(
      error.category(),
      fmt::format("{} after step {} of {} failed: {}. Nothing that was trained is lost: "
                  "step {} is saved in {}",
                  what, steps_done, total_steps_, error.message(), steps_done,
                  checkpoints_folder(config_.run.output)),
      fmt::format("{} Then the same command goes on from there, with {} first.", advice, what));
}

}  // namespace packtrain
