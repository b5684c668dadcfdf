#include "framework/training/trainer.h"

#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "framework/checkpoint/checkpoint.h"
#include "framework/config/load.h"
#include "framework/device/range_recorder.h"
#include "framework/device/trace_range.h"
#include "framework/support/error.h"
#include "framework/support/logging.h"
#include "framework/training/expert_load.h"
#include "framework/training/row_losses.h"
#include "framework/training/run_folder.h"
#include "framework/training/upload.h"
#include "models/decoder.h"

namespace packtrain {
namespace {

constexpr const char* kSaveRequestName = "checkpoint-now";  // in the run folder

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
  last_finish_s_ = now_s();
  for (std::int64_t step = first_step_; step < total_steps_; ++step) {
    trace_before(step - first_step_ + 1);
    train_step(step);
    trace_after(step - first_step_ + 1);
    if (rewound_) finish_all();
    if (rewound_) return rewound_;
    const std::int64_t done = step + 1;
    const std::int64_t save_steps = config_.checkpoint.save_steps;
    const bool save_due = (save_steps > 0 && done % save_steps == 0) ||
                          std::exchange(save_agreed_, false) ||
                          (done == total_steps_ && config_.checkpoint.save_final);
    const bool evaluate_due =
        config_.run.evaluate_steps > 0 && done % config_.run.evaluate_steps == 0;
    if (save_due || evaluate_due || done == total_steps_) finish_all();
    if (stop_agreed_) stop(done);
    if (evaluate_due || done == total_steps_) evaluate(done);
    if (save_due) save(done);
  }
  saver_->finish();
  return std::nullopt;
}

void Trainer::trace_before(std::int64_t number) {
  if (!trace_->begins_at(number)) return;
  finish_all();
  trace_->begin();
  last_finish_s_ = now_s();
}

void Trainer::trace_after(std::int64_t number) {
  if (!trace_->ends_at(number)) return;
  finish_all();
  trace_->end();
  last_finish_s_ = now_s();
}

void Trainer::train_step(std::int64_t step) {
  set_log_position(step, "train");
  const TraceRange range(fmt::format("step {}", step + 1));
  faults_.before_step(step + 1);
  Pending pending;
  pending.prepared = batches_->next();
  if (!memory_->is_done()) add_memory_loads(pending.prepared.micro_batches);
  pending.data_wait_s = batches_->take_wait_s();
  pending.learning_rate = learning_rate_->at(step);
  pending.outcome = outcomes_[step % outcomes_.size()].get();
  compute_step(step, pending);
  pending.waited = model_->compute().take_waited();
  pending_.push_back(std::move(pending));
  // A GPU is kept busy by reading each outcome one step late.
  const std::size_t num_in_flight = device_.device->kind() == DeviceKind::kCuda ? 1 : 0;
  while (pending_.size() > num_in_flight) finish_oldest();
}

void Trainer::compute_step(std::int64_t step, Pending& pending) {
  const std::vector<PackedBatch>& micro_batches = pending.prepared.micro_batches;
  if (graphs_ == nullptr || !StepGraphs::serves(micro_batches)) {
    compute_step_kernel_by_kernel(step, pending);
    return;
  }
  const StepGraphs::Trained trained = graphs_->train(micro_batches.front());
  update(step, trained.loss, pending, step_details({&trained.batch, 1}));
}

at::Tensor Trainer::step_details(std::span<const DeviceBatch> batches) {
  at::Tensor details;
  if (num_details() == 0) return details;
  model_->compute().run([&](StreamHandle) {
    std::vector<at::Tensor> parts;
    if (num_sources() > 1) parts.push_back(sum_by_source(batches, num_sources()));
    if (num_load_numbers(source_.decoder) > 0) {
      parts.push_back(sum_expert_load(batches, source_.decoder));
    }
    details = at::cat(parts);
  });
  return details;
}

StepRequests Trainer::requests() const {
  std::error_code ignored;
  const bool save = world_.rank() == 0 &&
                    std::filesystem::remove(config_.run.output + "/" + kSaveRequestName, ignored);
  return {.stop = stop_signal_.requested(), .save = save};
}

void Trainer::update(std::int64_t step, const at::Tensor& loss, Pending& pending,
                     const at::Tensor& details) {
  faults_.before_update(step + 1, *model_);
  saver_->before_update();
  optimizer_->step(loss, pending.learning_rate, step + 1, requests(), *pending.outcome, details,
                   guard_->bounds(step + 1));
}

void Trainer::compute_step_kernel_by_kernel(std::int64_t step, Pending& pending) {
  std::vector<DeviceBatch> batches;
  at::Tensor row_losses;
  model_->compute().run([&](StreamHandle) {
    for (const PackedBatch& batch : pending.prepared.micro_batches) {
      batches.push_back(upload(batch, *device_.device));
    }
    if (ledger_ != nullptr || num_sources() > 1) row_losses = request_row_losses(batches);
  });
  const at::Tensor loss = model_->train(batches);
  if (ledger_ != nullptr) {
    model_->compute().run([&](StreamHandle) { pending.row_losses = ledger_->fetch(row_losses); });
  }
  update(step, loss, pending, step_details(batches));
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
  const double finish_s = now_s();
  const std::int64_t step = pending.prepared.plan.step;
  const StepGuard::Verdict verdict = guard_->judge(step + 1, values);
  if (verdict == StepGuard::Verdict::kRewind && !rewound_) rewound_ = step + 1;
  if (ledger_ != nullptr) {
    ledger_->write(std::move(pending.row_losses), step + 1, pending.prepared.micro_batches);
  }
  metrics_->step(make_record(pending, values, finish_s - last_finish_s_));
  last_finish_s_ = finish_s;
  if (++num_finished_ == 2) memory_->compare(model_->communication_bytes());
  stop_agreed_ = stop_agreed_ || values.requests.stop;
  save_agreed_ = save_agreed_ || values.requests.save;
  batches_->recycle(std::move(pending.prepared));
  watchdog_->enter(RunPhase::kStep, step + 2);
}

StepRecord Trainer::make_record(const Pending& pending, const StepOutcome::Values& values,
                                double step_time_s) {
  const StepPlan& plan = pending.prepared.plan;
  StepRecord record;
  record.step = plan.step + 1;
  record.num_skipped_steps = values.applied ? 0 : 1;
  record.num_failed_saves = saver_->take_num_failed();
  record.checkpoint_wait_s = saver_->take_wait_s();
  record.checkpoint_step = std::max<std::int64_t>(saver_->newest(), 0);
  record.epoch = plan.epoch;
  record.loss = values.loss;
  record.grad_norm = values.grad_norm;
  record.learning_rate = pending.learning_rate;
  record.num_examples = plan.num_examples;
  record.num_tokens = plan.num_tokens;
  record.num_loss_tokens = plan.num_loss_tokens;
  record.step_time_s = step_time_s;
  record.tokens_per_second = static_cast<double>(plan.num_tokens) / step_time_s;
  record.tokens_per_second_per_device = record.tokens_per_second / world_.size();
  const double flops = training_flops(source_.decoder, static_cast<double>(plan.num_tokens),
                                      pending.prepared.attention_squares);
  record.model_tflops_per_device = flops / step_time_s / world_.size() / 1e12;
  const double peak = device_.device->peak_tflops();
  record.mfu = peak > 0 ? record.model_tflops_per_device / peak : 0;
  record.padding_fraction = pending.prepared.statistics.padding_fraction;
  record.fill = pending.prepared.statistics.fill;
  record.token_imbalance = pending.prepared.statistics.token_imbalance;
  record.cost_imbalance = pending.prepared.statistics.cost_imbalance;
  record.data_wait_s = pending.data_wait_s;
  record.gather_wait_s = pending.waited.gather_s;
  record.reduce_wait_s = pending.waited.reduce_s;
  record.comm_wait_s = record.gather_wait_s + record.reduce_wait_s;
  record.peak_memory_bytes = static_cast<std::int64_t>(device_.device->peak_memory_bytes());
  if (device_.device->kind() == DeviceKind::kCuda) {
    record.peak_memory_bytes += model_->communication_bytes();
  }
  const MemoryUse memory = device_.device->memory_use();
  record.allocated_memory_bytes = static_cast<std::int64_t>(memory.allocated_bytes);
  record.reserved_memory_bytes = static_cast<std::int64_t>(memory.reserved_bytes);
  const std::span<const double> details = values.details;
  if (num_sources() > 1) {
    record.loss_by_source = mean_by_source(details, train_store_->info().sources);
  }
  record.experts = expert_load(details.subspan(num_source_sums()), source_.decoder);
  return record;
}

void Trainer::evaluate(std::int64_t step) {
  if (evaluator_ == nullptr) return;
  set_log_position(step, "evaluate");
  watchdog_->enter(RunPhase::kCheckpoint, step);
  metrics_->evaluation(evaluator_->evaluate(*model_, step));
  watchdog_->enter(RunPhase::kStep, step + 1);
  last_finish_s_ = now_s();
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
  state.plan_header = plan_header_text(plan_->header());
  state.guard = guard_->state();
  return state;
}

void Trainer::save(std::int64_t steps_done) {
  set_log_position(steps_done, "checkpoint");
  watchdog_->enter(RunPhase::kCheckpoint, steps_done);
  if (steps_done == total_steps_) {
    saver_->save_now(state(steps_done));
  } else {
    saver_->save(state(steps_done));
  }
  watchdog_->enter(RunPhase::kStep, steps_done + 1);
}

void Trainer::stop(std::int64_t steps_done) {
  finish_all();
  trace_->end();
  set_log_position(steps_done, "checkpoint");
  watchdog_->enter(RunPhase::kCheckpoint, steps_done);
  saver_->save_now(state(steps_done));
  throw Error(ErrorCategory::kStopped,
              fmt::format("stopped on request after step {} of {}; saved in {}", steps_done,
                          total_steps_, checkpoints_folder(config_)),
              "The same command continues from there.");
}

}  // namespace packtrain
