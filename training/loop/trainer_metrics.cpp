// Reports of the Trainer to metrics and logs: at the start, of every step, and at the end.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>

#include "framework/config/load.h"
#include "framework/device/tensor_memory.h"
#include "framework/metrics/metrics_file.h"
#include "models/estimates/flops.h"
#include "parallel/communicators/collectives.h"
#include "training/loop/trainer.h"
#include "training/saving/run_folder.h"
#include "training/steps/expert_load.h"
#include "training/steps/row_losses.h"

namespace packtrain {
namespace {

// The scheduler's job ID; "" without a scheduler.
std::string job_id() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return "";
}

std::int64_t num_restarts() {
  const char* restarts = std::getenv("PACKTRAIN_RESTARTS");  // set by launch/packtrain-run
  return restarts == nullptr ? 0 : std::strtoll(restarts, nullptr, 10);
}

}  // namespace

MetricsOptions Trainer::metrics_options() const {
  MetricsOptions options;
  options.serve = config_.metrics.serve;
  options.address = config_.metrics.address;
  options.port = config_.metrics.port + world_.local_rank();
  options.run_folder = config_.run.output;
  options.run_name = run_name(config_);
  options.host = world_.host();
  options.rank = world_.rank();
  options.total_steps = total_steps_;
  options.first_step = first_step_;
  options.num_bad_lines = train_store_->info().num_bad_lines;
  options.num_restarts = num_restarts();
  options.facts = {{"backend", name_of(device_.backend)},
                   {"config_hash", hash_config(config_)},
                   {"device", device_.device->name()},
                   {"job_id", job_id()},
                   {"num_ranks", std::to_string(world_.size())},
                   {"strategy", config_value(config_, "batch.strategy")}};
  for (const auto* entries : {&memory_->plan().allocated, &memory_->plan().outside}) {
    for (const MemoryEntry& entry : *entries)
      options.planned_memory_bytes[entry.name] = entry.bytes;
  }
  options.trouble = [this] { return watchdog_->overdue(); };
  return options;
}

void Trainer::start_metrics() {
  const bool keeps_ledger = config_.metrics.example_losses;
  if (world_.rank() == 0) {
    write_run_files(config_, *plan_);
    if (due_.evaluation) cut_evaluation_of(config_.run.output + "/metrics.jsonl", first_step_);
    prepare_example_loss_logs(config_.run.output, keeps_ledger ? world_.size() : 0, first_step_);
  }
  world_.control().barrier();  // the folder exists
  if (keeps_ledger) {
    loss_log_ = std::make_unique<ExampleLossLog>(config_.run.output, world_.rank(), first_step_,
                                                 *train_store_, *device_.device);
  }
  const MetricsOptions options = metrics_options();
  metrics_ = Metrics::start(options);
  const auto endpoints = gather_texts(metrics_->endpoint().value_or(""), 0, world_.control());
  const auto hosts = gather_texts(world_.host(), 0, world_.control());
  if (world_.rank() == 0) {
    write_metrics_targets(config_.run.output, options.run_name, endpoints, hosts);
  }
}

void Trainer::end(RunState state, const std::string& reason, bool waits) {
  metrics_->end(state, reason, waits ? config_.metrics.last_scrape_timeout_s : 0);
  if (state == RunState::kDone) world_.control().barrier();  // metrics of all ranks were scraped
  if (world_.rank() == 0) remove_metrics_targets(config_.run.output, run_name(config_));
}

StepRecord Trainer::make_record(const Pending& pending, const StepOutcome::Values& values) {
  StepRecord record;
  record.num_skipped_steps = values.applied ? 0 : 1;
  record.num_out_of_memory = std::exchange(num_out_of_memory_, 0);
  record.loss = values.loss;
  record.grad_norm = values.grad_norm;
  record.learning_rate = pending.learning_rate;
  add_plan(pending.prepared, record);
  add_checkpoints(record);
  add_times(pending, record);
  add_memory(record);
  const std::span<const double> details = values.details;
  if (num_sources() > 1) {
    record.loss_by_source = mean_by_source(details, train_store_->info().sources);
  }
  record.experts = expert_load(details.subspan(num_source_sums()), source_.decoder);
  return record;
}

void Trainer::add_plan(const PreparedStep& prepared, StepRecord& record) const {
  record.step = prepared.plan.step + 1;
  record.epoch = prepared.plan.epoch;
  record.num_examples = prepared.plan.num_examples;
  record.num_tokens = prepared.plan.num_tokens;
  record.num_loss_tokens = prepared.plan.num_loss_tokens;
  record.padding_fraction = prepared.statistics.padding_fraction;
  record.num_padding_tokens = prepared.statistics.num_padding_tokens;
  record.fill = prepared.statistics.fill;
  record.token_imbalance = prepared.statistics.token_imbalance;
  record.cost_imbalance = prepared.statistics.cost_imbalance;
}

void Trainer::add_times(const Pending& pending, StepRecord& record) {
  const StepTimes times = clock_->take_step();
  record.step_time_s = times.total_s;
  record.forward_s = times.forward_s;
  record.backward_s = times.backward_s;
  record.optimizer_s = times.optimizer_s;
  record.data_wait_s = pending.data_wait_s;
  record.gather_wait_s = pending.waited.gather_s;
  record.reduce_wait_s = pending.waited.reduce_s;
  record.comm_wait_s = record.gather_wait_s + record.reduce_wait_s;
  record.tokens_per_second = static_cast<double>(record.num_tokens) / times.total_s;
  record.tokens_per_second_per_device = record.tokens_per_second / world_.size();
  const double flops = training_flops(source_.decoder, static_cast<double>(record.num_tokens),
                                      pending.prepared.attention_squares);
  record.model_tflops_per_device = flops / times.total_s / world_.size() / 1e12;
  const double peak = device_.device->peak_tflops();
  record.mfu = peak > 0 ? record.model_tflops_per_device / peak : 0;
  stragglers_->judge(pending.waited, record);
}

void Trainer::add_checkpoints(StepRecord& record) {
  record.num_failed_saves = saver_->take_num_failed();
  record.checkpoint_wait_s = saver_->take_wait_s();
  record.checkpoint_step = std::max<std::int64_t>(saver_->newest(), 0);
  record.checkpoint_unix_time_s = saver_->newest_unix_time_s();
  record.checkpoint_duration_s = saver_->newest_duration_s();
}

void Trainer::add_memory(StepRecord& record) {
  const Device& device = *device_.device;
  const MemoryUse memory = device.memory_use();
  record.allocated_memory_bytes = static_cast<std::int64_t>(memory.allocated_bytes);
  record.reserved_memory_bytes = static_cast<std::int64_t>(memory.reserved_bytes);
  record.communication_memory_bytes = model_->communication_bytes();
  record.peak_memory_bytes = static_cast<std::int64_t>(device.peak_memory_bytes());
  if (device.kind() == DeviceKind::kCuda) {
    record.peak_memory_bytes += record.communication_memory_bytes;
  }
  const std::int64_t num_retries = num_allocation_retries(device);
  record.num_allocation_retries = num_retries - std::exchange(num_allocation_retries_, num_retries);
}

}  // namespace packtrain
