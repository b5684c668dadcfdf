#include "training/loop/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "framework/device/range_recorder.h"
#include "framework/device/trace_range.h"
#include "training/checkpoint/checkpoint.h"
#include "training/saving/run_folder.h"
#include "training/steps/due_steps.h"

namespace packtrain {
namespace {

constexpr const char* kSaveRequestName = "checkpoint-now";  // in the run folder
constexpr double kLookEveryS = 1;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StepOutcome::Values read_outcome(StepOutcome& outcome) {
  const RangeScope range("wait for the outcome", {RangeKind::kThreadWait});
  return outcome.read();
}

}  // namespace

Trainer::~Trainer() = default;

std::optional<std::int64_t> Trainer::run() {
  evaluate_and_sample(first_step_);  // due before training, or left over by the checkpoint
  clock_->restart();
  for (std::int64_t step = first_step_; step < total_steps_ && !early_stopping_->is_over();
       ++step) {
    trace_before(++num_started_);
    train_step(step);
    trace_after(num_started_);
    if (rewound_) {
      finish_all();
      return rewound_;
    }
    const std::int64_t done = step + 1;
    const bool save_due = is_save_due(done);
    due_ = {is_evaluation_due(done), is_sample_due(done)};
    if (save_due || due_.any() || stop_agreed_) finish_all();
    if (dropped_) {
      due_ = {};
      step = recover() - 1;
      continue;
    }
    if (stop_agreed_) stop(done);
    if (save_due) save(done, done == total_steps_);
    evaluate_and_sample(done);
  }
  if (early_stopping_->is_over()) log_info("ended early: {}", early_stopping_->describe());
  saver_->finish();
  faults_.maybe_inject(FaultPhase::kShutdown);
  return std::nullopt;
}

bool Trainer::is_save_due(std::int64_t done) const {
  return is_due(config_.checkpoint.save_steps, done, total_steps_, plan_->planner()) ||
         save_agreed_ || (done == total_steps_ && config_.checkpoint.save_final);
}

bool Trainer::is_evaluation_due(std::int64_t done) const {
  if (evaluations_->empty()) return false;
  return done == total_steps_ ||
         is_due(config_.run.evaluate_steps, done, total_steps_, plan_->planner());
}

bool Trainer::is_sample_due(std::int64_t done) const {
  if (samples_ == nullptr) return false;
  return done == total_steps_ ||
         is_due(config_.samples.steps, done, total_steps_, plan_->planner());
}

void Trainer::trace_before(std::int64_t number) {
  if (!trace_->begins_at(number)) return;
  finish_all();
  trace_->begin();
  clock_->restart();
}

void Trainer::trace_after(std::int64_t number) {
  if (!trace_->ends_at(number)) return;
  finish_all();
  trace_->end();
  clock_->restart();
}

void Trainer::train_step(std::int64_t step) {
  set_log_position(step, "train");
  const TraceRange range(fmt::format("step {}", step + 1));
  faults_.maybe_inject(FaultPhase::kStep, step + 1);
  Pending pending;
  pending.prepared = batches_->next();
  if (!memory_->is_done()) add_memory_loads(pending.prepared.micro_batches);
  pending.data_wait_s = batches_->take_wait_s();
  pending.learning_rate = learning_rate_->at(step);
  pending.outcome = outcomes_[step % outcomes_.size()].get();
  compute_step(step, pending);
  clock_->end_step();
  pending.waited = model_->compute().take_waited();
  pending_.push_back(std::move(pending));
  // Each outcome is read one step late, so that the GPU always has work.
  const std::size_t num_in_flight = device_.device->kind() == DeviceKind::kCuda ? 1 : 0;
  while (pending_.size() > num_in_flight) finish_oldest();
}

StepRequests Trainer::requests() {
  StepRequests requests{.stop = stop_signal_.requested(),
                        .out_of_memory = out_of_memory_.has_value()};
  // A shared file system needs milliseconds for an answer, too long for every step.
  if (world_.rank() == 0 && now_s() - last_look_s_ > kLookEveryS) {
    std::error_code ignored;
    last_look_s_ = now_s();
    requests.save = std::filesystem::remove(config_.run.output + "/" + kSaveRequestName, ignored);
  }
  return requests;
}

void Trainer::update(std::int64_t step, Pending& pending) {
  faults_.before_update(step + 1, *model_);
  replicas_->begin(step + 1, pending.learning_rate);
  saver_->before_update();
  optimizer_->step(pending.loss, pending.learning_rate, step + 1, requests(), *pending.outcome,
                   pending.details, guard_->bounds(step + 1));
}

void Trainer::add_memory_loads(std::span<const PackedBatch> batches) {
  for (const PackedBatch& batch : batches) {
    memory_->add({.num_rows = std::ssize(batch.input_ids),
                  .num_supervised_rows = std::ssize(batch.loss_index),
                  .num_sequences = std::ssize(batch.cu_seqlens) - 1,
                  .several_micro_batches = batches.size() > 1});
  }
}

void Trainer::finish_all() {
  while (!pending_.empty()) finish_oldest();
}

void Trainer::finish_oldest() {
  Pending pending = std::move(pending_.front());
  pending_.pop_front();
  const StepOutcome::Values values = read_outcome(*pending.outcome);
  const std::int64_t step = pending.prepared.plan.step;
  replicas_->judge(step + 1);
  num_ranks_out_of_memory_ = std::max(num_ranks_out_of_memory_, values.num_ranks_out_of_memory);
  save_agreed_ = save_agreed_ || values.requests.save;
  if (dropped_ || values.requests.out_of_memory) {  // a step after a discarded one is discarded too
    dropped_ = dropped_.value_or(step);
    clock_->take_step();
    return batches_->recycle(std::move(pending.prepared));
  }
  metrics_->step(make_record(pending, values));  // also of a step that ends the run
  const StepGuard::Verdict verdict = guard_->judge(step + 1, values);
  if (verdict == StepGuard::Verdict::kRewind && !rewound_) rewound_ = step + 1;
  if (loss_log_ != nullptr) {
    loss_log_->write(std::move(pending.row_losses), step + 1, pending.prepared.micro_batches);
  }
  if (++num_finished_ == 2) memory_->compare(model_->communication_bytes());
  stop_agreed_ = stop_agreed_ || values.requests.stop;
  batches_->recycle(std::move(pending.prepared));
  watchdog_->enter(RunPhase::kStep, step + 2);
}

}  // namespace packtrain
