#include "training/loop/run_reporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "framework/config/load.h"
#include "framework/device/tensor_memory.h"
#include "framework/metrics/metrics_file.h"
#include "models/estimates/flops.h"
#include "models/objectives/make_objective.h"
#include "parallel/communicators/collectives.h"
#include "training/plan/token_budget.h"
#include "training/saving/run_folder.h"
#include "training/steps/rehearsal.h"

namespace packtrain {
namespace {

// For a follower to send the last records.
constexpr std::chrono::seconds kFollowerEndsWithin{60};
constexpr std::chrono::seconds kHurriedFollower{15};  // of a rank that must end

// The scheduler's job ID; "" without a scheduler.
std::string job_id() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return "";
}

// Details: OptimizerStep::run_hessian(). It writes nothing after a skipped step.
HessianRecord hessian_record(const StepOutcome::Values& values, bool step_applied) {
  HessianRecord record{.grad_norm = values.grad_norm,
                       .num_skipped = step_applied && values.applied ? 0 : 1};
  if (step_applied) record.unclipped_fraction = values.details.at(0) / values.details.at(1);
  return record;
}

std::int64_t num_restarts() {
  const char* restarts = std::getenv("PACKTRAIN_RESTARTS");  // set by launch/packtrain-run
  return restarts == nullptr ? 0 : std::strtoll(restarts, nullptr, 10);
}

}  // namespace

RunReporter::RunReporter(const Config& config, const RunInputs& inputs, const PlannedRun& run,
                         const EvaluationTracker& tracker, const Watchdog& watchdog,
                         RunSaver& saver, World& world)
    : config_(config),
      inputs_(inputs),
      run_(run),
      saver_(saver),
      world_(world),
      details_(*inputs.stores.all, inputs.source.decoder, make_objective(config.objective)),
      stragglers_(config.guard.straggler_ratio, world.control()) {
  log_memory_plan();
  start_metrics(tracker.due().evaluation, watchdog);
  trace_.emplace(config.run, run.total_steps() - run.first_step(), *inputs.device.device, world);
}

void RunReporter::log_memory_plan() {
  const std::int64_t first_step = run_.first_step();
  if (first_step >= run_.total_steps()) return;
  const StepPlan first = run_.plan->planner().plan(first_step);
  const auto has_several = [](const auto& micro_batches) { return micro_batches.size() > 1; };
  run_.memory->log_plan(
      {.num_rows = std::min(run_.plan->layout().max_tokens_per_micro_batch,
                            max_useful_tokens(config_, run_.plan->mesh().data_parallel_size())),
       .several_micro_batches = std::ranges::any_of(first.ranks, has_several)},
      run_.plan->mesh(), run_.resolved);
}

MetricsOptions RunReporter::metrics_options(const Watchdog& watchdog) const {
  MetricsOptions options;
  options.serve = config_.metrics.serve;
  options.address = config_.metrics.address;
  options.port = config_.metrics.port + world_.local_rank();
  options.run_folder = config_.run.output;
  options.run_name = run_name(config_);
  options.host = world_.host();
  options.rank = world_.rank();
  options.total_steps = run_.total_steps();
  options.first_step = run_.first_step();
  options.num_bad_lines = inputs_.stores.all->info().num_bad_lines;
  options.num_restarts = num_restarts();
  options.facts = {{"backend", name_of(inputs_.device.backend)},
                   {"config_hash", hash_config(config_)},
                   {"device", inputs_.device.device->name()},
                   {"job_id", job_id()},
                   {"num_ranks", std::to_string(world_.size())},
                   {"strategy", config_value(config_, "batch.strategy")}};
  for (const auto* entries : {&run_.memory->plan().allocated, &run_.memory->plan().outside}) {
    for (const MemoryEntry& entry : *entries)
      options.planned_memory_bytes[entry.name] = entry.bytes;
  }
  options.trouble = [&watchdog] { return watchdog.overdue(); };
  return options;
}

void RunReporter::start_metrics(bool evaluates_again, const Watchdog& watchdog) {
  const bool keeps_losses = config_.metrics.example_losses;
  const std::string& folder = config_.run.output;
  const std::int64_t first_step = run_.first_step();
  if (world_.rank() == 0) {
    write_run_files(config_, *run_.plan);
    if (evaluates_again) cut_evaluation_of(folder + "/metrics.jsonl", first_step);
    prepare_example_loss_logs(folder, keeps_losses ? world_.size() : 0, first_step);
  }
  world_.control().barrier();  // the folder exists
  if (keeps_losses) {
    loss_log_ = std::make_unique<ExampleLossLog>(folder, world_.rank(), first_step,
                                                 *inputs_.stores.all, *inputs_.device.device);
  }
  const MetricsOptions options = metrics_options(watchdog);
  metrics_ = Metrics::start(options);
  if (world_.rank() == 0) follower_.emplace(config_);
  const auto endpoints = gather_texts(metrics_->endpoint().value_or(""), 0, world_.control());
  const auto hosts = gather_texts(world_.host(), 0, world_.control());
  if (world_.rank() == 0) write_metrics_targets(folder, options.run_name, endpoints, hosts);
}

void RunReporter::end(RunState state, const std::string& reason, bool waits) {
  metrics_->end(state, reason, waits ? config_.metrics.last_scrape_timeout_s : 0);
  if (follower_) follower_->finish(waits ? kFollowerEndsWithin : kHurriedFollower);
  if (state == RunState::kDone) world_.control().barrier();  // metrics of all ranks were scraped
  if (world_.rank() == 0) remove_metrics_targets(config_.run.output, run_name(config_));
}

void RunReporter::add_batches(std::span<const PackedBatch> micro_batches) {
  if (run_.memory->is_done()) return;
  for (const PackedBatch& batch : micro_batches) {
    const BatchSizes sizes = sizes_of(batch);
    run_.memory->add({.num_rows = sizes.num_rows,
                      .num_supervised_rows = sizes.num_supervised_rows,
                      .num_sequences = sizes.num_sequences,
                      .num_keys = sizes.num_keys,
                      .several_micro_batches = micro_batches.size() > 1});
  }
}

void RunReporter::accept(LaunchedStep& step) {
  if (loss_log_ != nullptr) {
    loss_log_->write(std::move(step.row_losses), step.prepared.plan.step + 1,
                     step.prepared.micro_batches);
  }
  if (++num_accepted_ == 2) run_.memory->compare(run_.model->parameters().communication_bytes());
}

void RunReporter::step(const LaunchedStep& step, const StepOutcome::Values& values,
                       const StepTimes& times, std::int64_t num_out_of_memory) {
  StepRecord record;
  record.num_skipped_steps = values.applied ? 0 : 1;
  record.num_out_of_memory = num_out_of_memory;
  record.loss = values.loss;
  record.grad_norm = values.grad_norm;
  record.learning_rate = step.learning_rates.front();
  add_adapters(step, values, record);
  add_plan(step.prepared, record);
  add_checkpoints(record);
  add_times(step, times, record);
  add_memory(record);
  if (loss_log_ != nullptr) record.num_unwritten_lines = loss_log_->num_unwritten_lines();
  details_.add_to(record, values.details);
  if (step.hessian) record.hessian = hessian_record(*step.hessian, values.applied);
  metrics_->step(record);
  commands();
  if (follower_) follower_->look();
}

void RunReporter::commands() {
  for (const CommandRecord& record : saver_.take_command_records()) metrics_->command(record);
}

// The record's own loss is the mean of those that have a step.
void RunReporter::add_adapters(const LaunchedStep& step, const StepOutcome::Values& values,
                               StepRecord& record) const {
  const std::vector<std::string> names = inputs_.adapter_names();
  for (std::size_t a = 0; a < values.adapters.size(); ++a) {
    const StepCounts& counts = step.prepared.plan.parts.at(a).counts;
    if (counts.num_examples == 0) continue;
    const StepOutcome::AdapterValues& own = values.adapters[a];
    record.adapters.push_back({names[a], own.loss, own.grad_norm, step.learning_rates.at(a),
                               counts.num_tokens, counts.num_loss_tokens, own.applied ? 0 : 1});
  }
  if (values.adapters.empty()) return;
  record.loss = values.loss / static_cast<double>(record.adapters.size());
  record.num_skipped_steps = 0;
  for (const AdapterRecord& own : record.adapters) {
    record.num_skipped_steps = std::max(record.num_skipped_steps, own.num_skipped_steps);
  }
}

void RunReporter::add_plan(const PreparedStep& prepared, StepRecord& record) const {
  record.step = prepared.plan.step + 1;
  record.epoch = prepared.plan.epoch;
  record.num_examples = prepared.plan.num_examples;
  record.num_groups = prepared.plan.num_groups;
  record.num_tokens = prepared.plan.num_tokens;
  record.num_loss_tokens = prepared.plan.num_loss_tokens;
  record.padding_fraction = prepared.statistics.padding_fraction;
  record.num_padding_tokens = prepared.statistics.num_padding_tokens;
  record.fill = prepared.statistics.fill;
  record.token_imbalance = prepared.statistics.token_imbalance;
  record.cost_imbalance = prepared.statistics.cost_imbalance;
}

void RunReporter::add_times(const LaunchedStep& step, const StepTimes& times, StepRecord& record) {
  record.step_time_s = times.total_s;
  record.forward_s = times.forward_s;
  record.backward_s = times.backward_s;
  record.optimizer_s = times.optimizer_s;
  record.data_wait_s = step.data_wait_s;
  record.gather_wait_s = step.waited.gather_s;
  record.reduce_wait_s = step.waited.reduce_s;
  record.comm_wait_s = record.gather_wait_s + record.reduce_wait_s;
  record.tokens_per_second = static_cast<double>(record.num_tokens) / times.total_s;
  record.tokens_per_second_per_device = record.tokens_per_second / world_.size();
  const double flops =
      training_flops(inputs_.source.decoder, static_cast<double>(record.num_tokens),
                     step.prepared.attention_squares);
  record.model_tflops_per_device = flops / times.total_s / world_.size() / 1e12;
  const double peak = inputs_.device.device->peak_tflops();
  record.mfu = peak > 0 ? record.model_tflops_per_device / peak : 0;
  stragglers_.judge(step.waited, record);
}

void RunReporter::add_checkpoints(StepRecord& record) {
  record.num_failed_saves = saver_.take_num_failed();
  record.checkpoint_wait_s = saver_.take_wait_s();
  record.checkpoint_step = std::max<std::int64_t>(saver_.newest(), 0);
  record.checkpoint_unix_time_s = saver_.newest_unix_time_s();
  record.checkpoint_duration_s = saver_.newest_duration_s();
}

void RunReporter::add_memory(StepRecord& record) {
  const Device& device = *inputs_.device.device;
  const MemoryUse memory = device.memory_use();
  record.allocated_memory_bytes = static_cast<std::int64_t>(memory.allocated_bytes);
  record.reserved_memory_bytes = static_cast<std::int64_t>(memory.reserved_bytes);
  record.communication_memory_bytes = run_.model->parameters().communication_bytes();
  record.peak_memory_bytes = static_cast<std::int64_t>(device.peak_memory_bytes());
  if (device.kind() == DeviceKind::kCuda) {
    record.peak_memory_bytes += record.communication_memory_bytes;
  }
  const std::int64_t num_retries = num_allocation_retries(device);
  record.num_allocation_retries = num_retries - std::exchange(num_allocation_retries_, num_retries);
}

}  // namespace packtrain
